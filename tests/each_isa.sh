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

names=(test_gpu: test_gpu_oracle: 'test_cuda:cuda: float32 training has' 'test_cluster_oracle:'
  'test_cluster:layouts: gpt2, tied head$')
# Of test_gpu what has none of the host's kernels, and so would do the same each time: policies, plans, disks and
# groups by themselves, and swappers, whose tests train on the naive reference, but for one of the host's rows.
same='^test_gpu:((CFO|CHP|CLP|COM|CPL|DPX|GRF|KRT|OP-4|PLK|RES|ROOF|RSP|SPO|SPR|SRP|SWP-([1-9]|1[0-35-9])|TBR)'
same+='[- :]|SWP-14[^:]*: (a pass|an update|rows)|SM-4: .*: reference$|gloo: |limit: |pair proof: )'

mapfile -t sets < <("$build/bin/troupe" version --json |
  python3 -c 'import json, sys; print(*json.load(sys.stdin)["instruction_sets"], sep="\n")')
[ ${#sets[@]} -gt 0 ] || { echo "$build/bin/troupe names no instruction sets" >&2; exit 1; }
if [ $# -eq 0 ]; then
  unset 'sets[-1]'
  for name in "${names[@]}"; do  # one that fits no test any more is an error
    found=$(ctest --test-dir "$build" -N -R "^$name" -E "$same")
    [[ $found != *'Total Tests: 0'* ]] || { echo "no test's name begins with '$name'" >&2; exit 1; }
  done
  set -- -R "^($(IFS='|'; echo "${names[*]}"))" -E "$same"
fi

for isa in "${sets[@]}"; do
  echo "--- TROUPE_ISA=$isa"
  export TROUPE_ISA=$isa
  run "$@"
done
