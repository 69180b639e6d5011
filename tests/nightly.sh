#!/usr/bin/env bash
# What takes hours, as one command: builds that CI leaves out, sanitizers, guards taken out one by one, and the
# seeded searches at the length of a night, from seeds of the day.
#
#   tests/nightly.sh                    all of it, some hours on two cores
#   tests/nightly.sh --list             its parts
#   tests/nightly.sh seeds kills        these alone
#   NIGHTLY_SEED=17 tests/nightly.sh seeds    as it was on the 17th day of the year
#
# Each part writes build/nightly/PART.log; a line for each says how it went and how long it took. Exit code: 0: all
# went well; 1: one did not; 2: no such part.
set -uo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
logs=build/nightly
seed=${NIGHTLY_SEED:-$(date +%-j)}
bin=build/release/bin

part_dev() {  # file by file: missing includes and shadowed names, which unity builds hide
  cmake --preset dev && ninja -C build/dev
}
part_asan() {
  cmake --preset asan && ninja -C build/asan && ctest --test-dir build/asan -j "$(nproc)" --output-on-failure
}
part_tsan() {
  [ -d build/caf-source ] || { echo "build/caf-source is missing (docs/testing.md)"; return 1; }
  cmake --preset tsan && ninja -C build/tsan && ctest --test-dir build/tsan -j "$(nproc)" --output-on-failure
}
part_clang() { tests/fuzz/clang_check.py --alone; }  # also what lacks an include; CI precompiles headers
part_guards() { tests/guards/without.py; }
part_isa() { tests/each_isa.sh -R . --repeat until-fail:2; }
part_load() { tests/under_load.sh 16 -j $((3 * $(nproc))) -L 'unit|gpu|cluster'; }
part_seeds() {
  "$bin/troupe" sim --fuzz 100000 --seed $((seed * 100000)) &&
    TROUPE_JOB_WALKS=1000000 TROUPE_JOB_SEED=$((seed * 1000000)) "$bin/test_actors" -tc='job: runs by seed*' &&
    TROUPE_SEQUENCES=10000 TROUPE_SEQUENCE_SEED=$((seed * 10000)) "$bin/test_actors" -tc='sequences*' &&
    "$bin/troupe" sim --heads 3 --fuzz 10000 --seed $((seed * 10000)) &&
    "$bin/troupe" sim --swap --fuzz 10000 --seed $((seed * 10000)) &&
    "$bin/troupe" sim --budget-w 1 --fuzz 10000 --seed $((seed * 10000)) &&
    "$bin/troupe" sim --power-parent-w 1 --fuzz 10000 --seed $((seed * 10000))
}
part_kills() {
  TROUPE_KILLS=1000 TROUPE_KILL_SEED=$seed "$bin/test_cluster_crash" -tc='kill -9: *' &&
    TROUPE_RECOVERY_KILLS=300 TROUPE_RECOVERY_KILL_SEED=$seed \
      "$bin/test_cluster_crash" -tc='kill -9 in recoveries*' &&
    TROUPE_INTERRUPTIONS=400 TROUPE_INTERRUPTION_SEED=$seed "$bin/test_cluster_crash" -tc='interruptions*' &&
    TROUPE_HEAD_KILLS=100 TROUPE_HEAD_SEED=$seed "$bin/test_cluster" -tc='NOD-7: heads*'
}
part_texts() {
  tests/bench/large_text.py "$bin/troupe" build/nightly/texts && tests/bench/large_text.py "$bin/troupe" \
    build/nightly/texts --bpe && tests/bench/large_text.py "$bin/troupe" build/nightly/texts --gib 1 --jsonl
}
part_debian() { tests/packages/bare_debian.sh build/release build/nightly; }       # as root
part_slurm() { tests/packages/one_machine_slurm.sh "$bin/troupe" build/nightly; }  # as root
part_placements() {
  TROUPE_PLACEMENTS=10000 TROUPE_PLACEMENT_SEED=$seed "$bin/test_cluster" -tc='placements*'
}
all=(dev clang asan tsan guards isa load seeds kills placements texts debian slurm)

[ "${1-}" != --list ] || { printf '%s\n' "${all[@]}"; exit 0; }
parts=("$@")
[ $# -gt 0 ] || parts=("${all[@]}")
for part in "${parts[@]}"; do
  [[ " ${all[*]} " == *" $part "* ]] || { echo "no such part: $part (--list names them)" >&2; exit 2; }
done

mkdir -p "$logs"
./troupe build > "$logs/build.log" 2>&1 || { echo "build FAILED: $logs/build.log" >&2; exit 1; }
failed=0
for part in "${parts[@]}"; do
  begun=$SECONDS
  if "part_$part" > "$logs/$part.log" 2>&1; then
    how=ok
  elif [ $? = 77 ]; then
    how=$(tail -n 1 "$logs/$part.log")  # SKIPPED: what is missing here
  else
    how="FAILED: $logs/$part.log" failed=1
  fi
  printf '%-10s %6d s  %s\n' "$part" $((SECONDS - begun)) "$how"
done
exit "$failed"
