#!/usr/bin/env bash
# The AWS APIs that tests run against: moto at pinned versions with what tools/aws_emulator adds. Installed once into a cache
# folder outside the checkout.
#
#   tools/aws-emulator.sh              installs it if need be and prints its Python
#   tools/aws-emulator.sh serve [...]  serves (--port N; without it a free one) until it is ended
#   tools/aws-emulator.sh test         its own tests
#
#   KARPENTER_CACHE  where fetched things are kept (default: ${XDG_CACHE_HOME:-~/.cache}/karpenter)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
say() { printf 'aws-emulator: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

command -v python3 >/dev/null || die 'python3 is missing: install Python 3.11 or newer'
cache=${KARPENTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/karpenter}
out=$cache/aws-emulator/$(sha256sum "$here/aws_emulator/requirements.txt" | cut -c1-16)
python=$out/bin/python
if [ ! -e "$out/.complete" ]; then
  mkdir -p "$out"
  # One installs, a second one waits and then finds everything done.
  exec 9>"$out/.lock"
  flock 9
  if [ ! -e "$out/.complete" ]; then
    say 'installing moto (once)'
    python3 -m venv "$out" || die 'python3 -m venv failed; on Debian: apt-get install python3-venv'
    "$python" -m pip install --quiet --disable-pip-version-check --requirement "$here/aws_emulator/requirements.txt" \
      || die 'pip could not install tools/aws_emulator/requirements.txt; is a package registry within reach?'
    touch "$out/.complete"
  fi
  flock --unlock 9
fi

case "${1:-}" in
  '') echo "$python" ;;
  serve) shift; PYTHONPATH=$here exec "$python" -m aws_emulator "$@" ;;
  test) PYTHONPATH=$here exec "$python" -m unittest discover --start-directory "$here/aws_emulator" --top-level-directory "$here" --pattern '*_test.py' ;;
  *) die "unknown command $1; there are serve and test" ;;
esac
