#!/usr/bin/env bash
# A release in one folder: programs, image, charts, CRDs, policies, a list of what is inside, checksums. Everything carries the
# version of Cargo.toml and the commit, and is the same byte for byte when made again from the same programs.
#
#   tools/release.sh [OUTPUT]    OUTPUT: a new or empty folder (default: $KARPENTER_CACHE/release/VERSION)
#
#   RELEASE_PROGRAMS  folder with ready-made karpenter and karpenter-controller; without it cargo builds them
#   CARGO_TARGET_DIR, KARPENTER_CACHE  as in the Makefile
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
say() { printf 'release: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
for tool in cargo git python3 sha256sum ldd strip; do command -v "$tool" >/dev/null || die "$tool is missing"; done

cd "$root"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || die 'Cargo.toml has no version'
for chart in karpenter karpenter-crd; do
  grep -qx "version: $version" "charts/$chart/Chart.yaml" || die "charts/$chart/Chart.yaml does not have version $version, which Cargo.toml has"
done
commit=$(git rev-parse HEAD)
time=$(git log -1 --format=%ct)
if [ -n "$(git status --porcelain)" ]; then
  say 'the checkout has changes that are not committed; the commit is marked dirty'
  commit=$commit-dirty
fi
cache=${KARPENTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/karpenter}
out=${1:-$cache/release/$version}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -z "$(ls -A "$out")" ] || die "$out is not empty"

built=${RELEASE_PROGRAMS:-}
if [ -z "$built" ]; then
  say 'building'
  export KARPENTER_COMMIT=$commit CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
  # Machines of this kind have pages of 4, 16 or 64 KiB; an allocator that is built for the largest runs on all of them.
  if [ "$(uname -m)" = aarch64 ]; then export JEMALLOC_SYS_WITH_LG_PAGE=16; fi
  cargo build --locked --release --bin karpenter --bin karpenter-controller
  built=$CARGO_TARGET_DIR/release
fi
programs=$out/.programs
mkdir "$programs"
for program in karpenter karpenter-controller; do
  [ -x "$built/$program" ] || die "$built has no program $program"
  strip -o "$programs/$program" "$built/$program"
  # What was built from another checkout would be sold under the wrong name.
  said=$("$programs/$program" --version) || die "$built/$program does not run"
  [ "$said" = "$program $version" ] || die "$built/$program is $said, not version $version"
done

export PYTHONDONTWRITEBYTECODE=1
machine=$(uname -m); machine=${machine/x86_64/amd64}; machine=${machine/aarch64/arm64}
name=karpenter-$version-linux-$machine
python3 tools/release/programs.py "$out/$name.tar.gz" "$time" "$name" "$programs/karpenter" "$programs/karpenter-controller" LICENSE README.md CHANGELOG.md
python3 tools/release/image.py --binary "$programs/karpenter-controller" --output "$out/karpenter-controller-$version-linux-$machine.oci.tar" \
  --version "$version" --commit "$commit" --time "$time"
rm -rf "$out/.programs"

# Helm packs with the time of files; they get that of the commit.
helm=$(tools/helm.sh)/helm4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r charts "$work/"
find "$work/charts" -exec touch --no-dereference --date="@$time" {} +
for chart in karpenter karpenter-crd; do
  "$helm" package "$work/charts/$chart" --version "$version" --app-version "$version" --destination "$work" >/dev/null
  cp "$work/$chart-$version.tgz" "$out/"
done
"$helm" template karpenter-crd charts/karpenter-crd >"$out/karpenter-crds-$version.yaml"

cp deploy/cloudformation/karpenter.yaml "$out/karpenter-cloudformation-$version.yaml"
policies=()
for file in deploy/iam/*.json deploy/iam/render.sh deploy/iam/controller/*.json; do policies+=("$file@${file#deploy/iam/}"); done
python3 tools/release/programs.py "$out/karpenter-iam-$version.tar.gz" "$time" "karpenter-iam-$version" "${policies[@]}"
cargo metadata --locked --format-version 1 --filter-platform "$(uname -m)-unknown-linux-gnu" \
  | python3 tools/release/sbom.py "$version" "$time" >"$out/karpenter-$version.cdx.json"

(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
say "version $version of $commit is in $out"
