#!/usr/bin/env bash
# Renders every kustomization that people apply and fails when one does not
# render, or when config/default misses something it must hold.
# KUBECTL names the kubectl to use.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kubectl=${KUBECTL:-bin/k8s/kubectl}

rendered=$(mktemp)
trap 'rm -f "$rendered"' EXIT

for kustomization in config/crd config/samples config/runtime config/overlays/* config/testdata/everything config/default; do
  "$kubectl" kustomize "$kustomization" >"$rendered"
  echo "$kustomization renders: $(grep -c '^kind: ' "$rendered") objects"
done

# A component that no test uses may be broken without anybody seeing it.
for component in config/components/*; do
  grep -q -- "- ../../components/$(basename "$component")\$" config/testdata/everything/kustomization.yaml ||
    { echo "config/testdata/everything lacks $component" >&2; exit 1; }
done

# What follows looks at config/default, the last one rendered.
for kind in Namespace CustomResourceDefinition Deployment MutatingWebhookConfiguration \
  ValidatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding NetworkPolicy PodDisruptionBudget; do
  grep -q "^kind: $kind\$" "$rendered" || { echo "config/default holds no $kind" >&2; exit 1; }
done
if grep -n 'namespace: system$\|name: webhook-service$' "$rendered"; then
  echo "config/default refers to a Service that does not exist" >&2
  exit 1
fi
