#!/usr/bin/env bash
# Makes a virtual environment with what requirements.txt pins, in the folder given.
# One that was made from the same file by the same Python stays as it is.
set -euo pipefail
folder=$1
here=$(dirname "${BASH_SOURCE[0]}")

if ! python=$(command -v python3) || ! "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "Python 3.11 or later with venv is needed: apt-get install python3 python3-venv" >&2
  exit 1
fi

made_from=$("$python" --version; sha256sum <"$here/requirements.txt")
if [ "$(cat "$folder/made-from" 2>/dev/null)" = "$made_from" ]; then exit; fi
echo "installing the Python packages of test/interop"
rm -rf "$folder"
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$here/requirements.txt"
echo "$made_from" >"$folder/made-from"
