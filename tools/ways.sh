#!/usr/bin/env bash
# The ways of installing (CloudFormation, eksctl, Terraform, CDK, kOps) and their tests. What is fetched or built for them is kept
# in a cache folder outside the checkout; what a machine lacks is named.
#
#   tools/ways.sh generate   writes again what is generated: from deploy/iam, and docs/reference/kinds.md
#   tools/ways.sh test       all tests
#   tools/ways.sh cdk        those of the CDK add-on only
#   tools/ways.sh python [PATTERN]   the others only: *_test.py in deploy/tests
#
#   KARPENTER_CACHE            where fetched things are kept (default: ${XDG_CACHE_HOME:-~/.cache}/karpenter)
#   KARPENTER_TERRAFORM_PLUGINS   folder with Terraform providers (default: the usual ones; else Terraform fetches them)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${KARPENTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/karpenter}
export KARPENTER_CACHE=$cache
say() { printf 'ways: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing: $2"; }

# One does it, a second one waits and then finds it done: once FOLDER COMMAND...
once() {
  local folder=$1; shift
  [ -e "$folder/.complete" ] && return
  mkdir -p "$folder"
  (
    flock 9
    [ -e "$folder/.complete" ] && exit
    "$@" || exit 1
    touch "$folder/.complete"
  ) 9>"$folder/.lock"
}

# A stand-in for the Helm provider, which no registry of packages has.
helm_provider() {
  local source=$root/tools/terraform-provider-helm to
  provider=$cache/terraform-provider-helm/$(cat "$source"/{go.mod,go.sum,main.go} | sha256sum | cut -c1-16)
  to=$provider/registry.terraform.io/hashicorp/helm/2.17.0/$(go env GOOS)_$(go env GOARCH)
  build_helm_provider() {
    say 'building the stand-in for the Helm provider (once)'
    mkdir -p "$to" && (cd "$source" && go build -trimpath -mod=readonly -o "$to/terraform-provider-helm_v2.17.0" .)
  }
  once "$provider" build_helm_provider || die 'the stand-in for the Helm provider could not be built'
}

python_tests() {
  need terraform 'install Terraform 1.7 or newer'
  need go 'install Go 1.26 or newer'
  helm_provider
  KARPENTER_HELM_PROVIDER=$provider
  KARPENTER_HELM=$("$root/tools/helm.sh")
  python=$("$root/tools/aws-emulator.sh")
  export KARPENTER_HELM_PROVIDER KARPENTER_HELM
  PYTHONPATH=$root/tools:$root/deploy/tests PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest discover --start-directory "$root/deploy/tests" --pattern "${1:-*_test.py}"
}

cdk_tests() {
  need node 'install Node.js 20 or newer'
  need npm 'install npm'
  local work
  work=$cache/cdk/$(cat "$root"/cdk/package{,-lock}.json | sha256sum | cut -c1-16)
  install_packages() {
    say 'installing the packages of the CDK add-on (once)'
    cp "$root"/cdk/package{,-lock}.json "$work/"
    (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  }
  once "$work" install_packages || die 'npm could not install the packages of cdk/package-lock.json; is a package registry within reach?'
  (
    flock 9
    rm -rf "${work:?}"/{lib,tests,build,tsconfig.json}
    cp -r "$root"/cdk/{lib,tests,tsconfig.json} "$work/"
    cd "$work"
    node_modules/.bin/tsc --project tsconfig.json
    KARPENTER_ROOT=$root node --test --test-reporter=spec build/tests/*.test.js
  ) 9>"$work/.run.lock"
}

need python3 'install Python 3.11 or newer'
case "${1:-}" in
  generate)
    python3 "$root/tools/ways/generate.py"
    "$("$root/tools/aws-emulator.sh")" "$root/tools/ways/reference.py" ;;
  test)
    # Beside each other, the shorter one printed when it is done.
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    (cdk_tests) >"$log" 2>&1 & cdk=$!
    status=0
    (python_tests) || status=1
    wait "$cdk" || status=1
    cat "$log"
    exit "$status" ;;
  python) shift; python_tests "$@" ;;
  cdk) cdk_tests ;;
  *) die "unknown command ${1:-}; there are generate, test, python and cdk" ;;
esac
