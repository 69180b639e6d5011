#!/usr/bin/env bash
# Runs tests once on each instruction set that this processor has and the kernels are compiled for, worst
# first: kernels, whole trainings, oracles and one cluster, or what CTest's arguments choose.
#
#   tests/each_isa.sh                      what CI runs
#   tests/each_isa.sh -R . --repeat until-fail:2   the whole suite, twice on each
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build="$root/build/release"
run() { ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error "$@"; }

for isa in $("$build/bin/troupe" version --json |
  python3 -c 'import json, sys; print(*json.load(sys.stdin)["instruction_sets"])'); do
  echo "--- TROUPE_ISA=$isa"
  export TROUPE_ISA=$isa
  if [ $# -gt 0 ]; then
    run "$@"
  else  # each by itself: a name that fits no test any more is an error
    for tests in test_gpu: test_gpu_oracle: test_cuda: test_cuda_oracle: test_cluster_oracle: \
      'test_cluster:layouts: gpt2, tied head$'; do
      run -R "^$tests"
    done
  fi
done
