#!/usr/bin/env bash
# Runs tests once on each instruction set that this processor has and the kernels are compiled for, worst
# first: kernels, whole trainings, oracles and one cluster, or what CTest's arguments choose.
#
#   tests/each_isa.sh                      what CI runs
#   tests/each_isa.sh -R . --repeat until-fail:2   the whole suite, twice on each
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build="$root/build/release"
[ $# -gt 0 ] || set -- -R '^(test_gpu|test_gpu_oracle|test_cuda|test_cuda_oracle|test_cluster_oracle): |^test_cluster: layouts: gpt2, tied head$'
for isa in $("$build/bin/troupe" version --json |
  python3 -c 'import json, sys; print(*json.load(sys.stdin)["instruction_sets"])'); do
  echo "--- TROUPE_ISA=$isa"
  TROUPE_ISA=$isa ctest --test-dir "$build" --output-on-failure --no-tests=error "$@"
done
