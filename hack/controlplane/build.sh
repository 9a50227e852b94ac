#!/usr/bin/env bash
# Builds etcd, kube-apiserver and kubectl from their Go modules into bin/k8s.
# Binaries of the pinned version that are already there are left alone.
# KUBEBUILDER_ASSETS, when set, wins: nothing is built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/bin/k8s

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for binary in etcd kube-apiserver kubectl; do
    [ -x "$KUBEBUILDER_ASSETS/$binary" ] || {
      echo "KUBEBUILDER_ASSETS is set to $KUBEBUILDER_ASSETS, which has no $binary; unset it to build one" >&2
      exit 1
    }
  done
  echo "control plane: using KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS"
  exit 0
fi

cd "$here"
# One set of flags everywhere: -trimpath is part of the build cache's key.
export GOFLAGS="${GOFLAGS:--trimpath -buildvcs=false}" CGO_ENABLED=0
k8s=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
minor=${k8s#v1.}; minor=${minor%%.*}
stamp=""
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp="$stamp -X $package.gitVersion=$k8s -X $package.gitMajor=1 -X $package.gitMinor=$minor"
done

mkdir -p "$out"
build() { # binary version package expected-time flags...
  local binary=$1 version=$2 package=$3 expected=$4
  shift 4
  if [ -x "$out/$binary" ] && [ "$(cat "$out/.$binary.version" 2>/dev/null)" = "$version" ]; then
    echo "control plane: $binary $version is built"
    return
  fi
  echo "control plane: building $binary $version (about $expected on 2 cores with a cold cache, once)"
  local start=$SECONDS
  # A binary appears under its name only when it is whole.
  go build -o "$out/.$binary.new" "$@" "$package"
  mv "$out/.$binary.new" "$out/$binary"
  echo "$version" >"$out/.$binary.version"
  echo "control plane: built $binary in $((SECONDS - start)) s"
}
build etcd "$etcd" ./etcd "1 minute"
build kube-apiserver "$k8s" k8s.io/kubernetes/cmd/kube-apiserver "5 minutes" -ldflags "$stamp"
build kubectl "$k8s" k8s.io/kubernetes/cmd/kubectl "30 seconds" -ldflags "$stamp"
