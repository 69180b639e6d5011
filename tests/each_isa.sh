#!/usr/bin/env bash
# Runs tests once on each instruction set that this processor has and the kernels are compiled for, worst
# first: what CTest's arguments choose, or what CI needs beside the whole suite: the host's kernels, whole
# trainings, oracles, one cluster, and the GPU's training against the host's. The suite itself runs on the best
# of them, which is left out then.
#
#   tests/each_isa.sh                      what CI runs behind the whole suite
#   tests/each_isa.sh -R . --repeat until-fail:2   the whole suite, twice on each
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build="$root/build/release"
run() { ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error "$@"; }

mapfile -t sets < <("$build/bin/troupe" version --json |
  python3 -c 'import json, sys; print(*json.load(sys.stdin)["instruction_sets"], sep="\n")')
[ ${#sets[@]} -gt 0 ] || { echo "$build/bin/troupe names no instruction sets" >&2; exit 1; }
[ $# -gt 0 ] || unset 'sets[-1]'

for isa in "${sets[@]}"; do
  echo "--- TROUPE_ISA=$isa"
  export TROUPE_ISA=$isa
  if [ $# -gt 0 ]; then
    run "$@"
  else  # each by itself: a name that fits no test any more is an error
    for tests in test_gpu: test_gpu_oracle: 'test_cuda:cuda: float32 training has' \
      'test_cluster_oracle:' 'test_cluster:layouts: gpt2, tied head$'; do
      run -R "^$tests"
    done
  fi
done
