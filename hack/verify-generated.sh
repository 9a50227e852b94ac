#!/usr/bin/env bash
# Regenerates what controller-gen writes and fails when that changes anything.
# It compares with a copy instead of asking git, so it also works in a tree with
# uncommitted work; the regenerated files stay, ready to be committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# What is generated; a path that does not exist yet counts as empty.
generated() {
  find api -name 'zz_generated.*' -type f
  find config/crd/bases config/rbac/role.yaml config/webhook/manifests.yaml -type f 2>/dev/null || true
}

collect() { # target directory
  mkdir -p "$1"
  generated | while read -r file; do
    mkdir -p "$1/$(dirname "$file")"
    cp "$file" "$1/$file"
  done
}

collect "$copy/committed"
# CRDs of kinds that are gone would stay behind otherwise.
rm -rf config/crd/bases
make --no-print-directory generate manifests
collect "$copy/generated"
if ! diff -ru "$copy/committed" "$copy/generated"; then
  echo "generated files were out of date; they are regenerated now: commit them" >&2
  exit 1
fi
echo "generated files are up to date"
