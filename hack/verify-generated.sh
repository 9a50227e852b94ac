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

# controller-gen silently leaves out RBAC markers that stand on a type instead of
# a function or a package: each marker's resources must have come through.
status=0
while IFS=: read -r file line marker; do
  resources=${marker#*resources=}
  for resource in $(tr ';' ' ' <<<"${resources%%,*}"); do
    grep -qx -- "  - $resource" config/rbac/role.yaml || {
      echo "$file:$line: $resource is not in config/rbac/role.yaml: move the marker above a function" >&2
      status=1
    }
  done
done < <(grep -rn --include='*.go' '+kubebuilder:rbac:.*resources=' controllers webhook)
[ "$status" -eq 0 ] && echo "generated files are up to date"
exit "$status"
