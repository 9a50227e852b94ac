#!/usr/bin/env bash
# Compiles the TypeScript client and its checks into the folder given, with the
# compiler that package-lock.json pins. What npm installed from the same lock stays.
set -euo pipefail
folder=$1
here=$(dirname "${BASH_SOURCE[0]}")

if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null; then
  echo "Node.js 18 or later with npm is needed: apt-get install nodejs npm" >&2
  exit 1
fi

mkdir -p "$folder"
made_from=$(sha256sum <"$here/package-lock.json")
if [ "$(cat "$folder/made-from" 2>/dev/null)" != "$made_from" ]; then
  echo "installing the npm packages of test/interop"
  cp "$here/package.json" "$here/package-lock.json" "$folder"
  npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
  echo "$made_from" >"$folder/made-from"
fi
rm -rf "$folder/src" "$folder/dist"
cp -r "$here/src" "$here/tsconfig.json" "$folder"
"$folder/node_modules/.bin/tsc" --project "$folder"
