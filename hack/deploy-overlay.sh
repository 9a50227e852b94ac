#!/usr/bin/env bash
# Writes a kustomization that is config/NAME (default) with another image, so that
# deploying an image of one's own changes no file of the tree.
# Usage: hack/deploy-overlay.sh IMAGE DIRECTORY [NAME]
set -euo pipefail
image=$1
directory=$2
base=${3:-default}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

# kustomize wants the name and the tag, or the name and the digest, apart.
case ${image##*/} in # a colon before the last slash belongs to a registry's port
  *@*) name=${image%@*} pin="digest: ${image#*@}" ;;
  *:*) name=${image%:*} pin="newTag: \"${image##*:}\"" ;;
  *) name=$image pin="newTag: latest" ;;
esac

cat >"$directory/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- $(realpath --relative-to="$directory" "$root/config/$base")
images:
- name: agentruntime
  newName: $name
  $pin
YAML
