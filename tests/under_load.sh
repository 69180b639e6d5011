#!/usr/bin/env bash
# Runs tests while other work has the processors: no test's outcome may depend on speed.
#
#   tests/under_load.sh 4                               the whole suite beside stress-ng --cpu 4
#   tests/under_load.sh 4 --repeat until-fail:3         three times in a row
#   tests/under_load.sh 16 -L 'unit|gpu|cluster'        what CTest's arguments choose
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: $0 PROCESSES [ctest arguments]" >&2; exit 64; }
command -v stress-ng >/dev/null || { echo "stress-ng is missing: apt-get install stress-ng" >&2; exit 69; }
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
stress-ng --quiet --cpu "$1" &
load=$!
trap 'kill "$load"' EXIT
shift
ctest --test-dir "$root/build/release" --output-on-failure --no-tests=error "$@"
