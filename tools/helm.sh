#!/usr/bin/env bash
# Puts Helm 3 and Helm 4 into a cache folder outside the checkout and prints that folder; charts are tested with both. A no-op
# when they are there.
#
#   KARPENTER_HELM   use this folder with ready-made programs helm3 and helm4
#   KARPENTER_CACHE  where fetched things are kept (default: ${XDG_CACHE_HOME:-~/.cache}/karpenter)
set -euo pipefail

# Packages that carry them; they exist in the npm and in the Python registry.
package=lambda-layer-kubectl
versions=(helm3=v32@2.1.0 helm4=v35@2.2.2)

say() { printf 'helm: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

if [ -n "${KARPENTER_HELM:-}" ]; then
  for h in helm3 helm4; do
    [ -x "$KARPENTER_HELM/$h" ] || die "KARPENTER_HELM=$KARPENTER_HELM has no $h; unset it to have it fetched"
  done
  echo "$KARPENTER_HELM"
  exit 0
fi

cache=${KARPENTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/karpenter}
out=$cache/helm/$(sha256sum "$0" | cut -c1-16)
complete() { [ -x "$out/helm3" ] && [ -x "$out/helm4" ]; }
if complete; then echo "$out"; exit 0; fi
mkdir -p "$out"
# One fetches, a second one waits and then finds everything done.
exec 9>"$out/.lock"
flock 9
if complete; then echo "$out"; exit 0; fi

work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
from_npm() { command -v npm >/dev/null && npm pack --silent "@aws-cdk/$package-${1/@/@}" >/dev/null && tar xzf ./*.tgz; }
from_pip() { # the wheel holds the same archive
  command -v python3 >/dev/null && python3 -m pip download --quiet --no-deps "aws-cdk.$package-${1/@/==}" \
    && python3 -m zipfile -e ./*.whl . && find . -name '*.tgz' -exec tar xzf {} \;
}
unpack() { # ZIP FOLDER
  if command -v python3 >/dev/null; then python3 -m zipfile -e "$1" "$2"
  elif command -v unzip >/dev/null; then unzip -q "$1" -d "$2"
  else die "neither python3 nor unzip is there to unpack $1"; fi
}
for entry in "${versions[@]}"; do
  name=${entry%%=*} version=${entry#*=}
  [ -x "$out/$name" ] && continue
  say "fetching $name"
  mkdir -p "$work/$name"
  (cd "$work/$name" && { from_npm "$version" || from_pip "$version"; }) || die "$name could be fetched neither with npm nor with pip ($package-$version)"
  layer=$(find "$work/$name" -name layer.zip | head -n 1)
  [ -n "$layer" ] || die "the package with $name has no layer.zip"
  unpack "$layer" "$work/$name/layer"
  mv "$work/$name/layer/helm/helm" "$out/.$name.new" && chmod +x "$out/.$name.new" && mv "$out/.$name.new" "$out/$name"
done
complete || die "fetching ended without helm3 or helm4"
echo "$out"
