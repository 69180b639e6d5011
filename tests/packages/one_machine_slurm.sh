#!/usr/bin/env bash
# Runs configs/slurm/troupe.sbatch as it stands under a real Slurm: controller, two nodes and munge on this machine,
# in folders and a network of their own that are gone afterwards.
#
#   tests/packages/one_machine_slurm.sh build/release/bin/troupe [FOLDER]
#
# One job of an ordinary user (nobody) is submitted and goes through what the template's head promises:
#
#   scontrol requeue                   queued again; goes on from the last checkpoint
#   scancel --signal=USR1 --batch      the step is saved, and it is queued again; goes on behind that step
#   kill -9 of a node's process        queued again; goes on from the last checkpoint
#   scancel --signal=INT --batch       the step is saved, and the job ends with 130
#   sbatch --gres=none                 goes on behind that step, trains to the last one, and is COMPLETED
#
# Each start has its own certificate, which is gone afterwards, and none leaves a process. Every wait is finite.
#
# It needs root (namespaces, slurmd) and slurmctld, slurmd, slurm-client, munge and iproute2. Nothing of Slurm's or
# munge's own configuration on this machine is read or written. Exit code: 0: all holds; 1: it does not; 64: no such
# program; 77: something is missing here.
set -Eeuo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
template=$here/../../configs/slurm/troupe.sbatch

skip() { echo "SKIPPED: $*"; exit 77; }
fail() {
  echo "FAILED: $*" >&2
  squeue --long >&2 || true
  tail -n 30 "$work"/job/troupe-*.log "$work"/log/*.log >&2 || true
  exit 1
}

# --- within namespaces of its own -----------------------------------------------------------------------------------

await() {  # await SECONDS WHAT COMMAND...: until the command succeeds
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "$what did not come in time"
    sleep 0.5
  done
}

as_person() { runuser -u nobody -- env -C "$work/job" HOME="$work/job" "$@"; }

start_slurm() {
  local cpus=$(($(nproc) / 2))
  cat >"$SLURM_CONF" <<CONF
ClusterName=one
SlurmctldHost=head(192.0.2.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/log/slurmctld.log
SlurmdLogFile=$work/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
GresTypes=gpu
KillWait=20
NodeName=n1 NodeHostname=head NodeAddr=192.0.2.1 Port=17001 CPUs=$((cpus ? cpus : 1)) RealMemory=2000 Gres=gpu:1
NodeName=n2 NodeHostname=head NodeAddr=192.0.2.2 Port=17002 CPUs=$((cpus ? cpus : 1)) RealMemory=2000 Gres=gpu:1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
  echo "Name=gpu File=/dev/null" >"$work/gres.conf"  # in name only: there is no device
  head -c 1024 /dev/urandom >"$work/munge/key/key" && chmod 600 "$work/munge/key/key"
  munged --key-file="$work/munge/key/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge/key/log" --seed-file="$work/munge/key/seed"
  slurmctld
  slurmd -N n1
  slurmd -N n2
  await 60 "both nodes idle" both_idle
}
both_idle() { [ "$(sinfo --noheader --Node --format %t 2>/dev/null | sort | uniq -c | tr -s ' ')" = ' 2 idle' ]; }

log=runs/slurm/log.jsonl
state() { scontrol show job "$job" | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p'; }
exit_code() { scontrol show job "$job" | sed -n 's/.*ExitCode=\([0-9]*\):.*/\1/p'; }
in_state() { [[ " $1 " == *" $(state) "* ]]; }
# Of the launches so far: how many there were; steps of the last; after which step it began.
launches() { grep -c '"type":"start"' "$work/job/$log" 2>/dev/null || true; }
last_launch() { awk '/"type":"start"/ { text = "" } { text = text $0 "\n" } END { printf "%s", text }' "$work/job/$log"; }
steps_of_launch() { last_launch | grep -c '"type":"step"' || true; }
has_steps() { [ "$(launches)" = "$1" ] && [ "$(steps_of_launch)" -ge "$2" ]; }
last_step() { sed -n 's/.*"type":"step".*"step":\([0-9]*\).*/\1/p' "$work/job/$log" | tail -n 1; }
resumed_after() { last_launch | sed -n 's/.*"type":"resume".*"step":\([0-9]*\).*/\1/p' | tail -n 1; }

# went_on LAUNCH LEAST MOST: it steps again as that launch, from a state between these.
went_on() {
  # Slurm lets a requeued job wait for two minutes; started at once it would be refused as revoked.
  await 60 "leave to start" scontrol update "JobId=$job" StartTime=now+5 2>>"$work/log/update"
  await 300 "launch $1, with steps" has_steps "$1" 3
  local after
  after=$(resumed_after)
  [ -n "$after" ] && [ "$after" -ge "$2" ] && [ "$after" -le "$3" ] ||
    fail "launch $1 goes on after step '$after', expected $2 to $3"
  echo "launch $1 goes on after step $after"
}

submit() {  # submit [OPTION OF SBATCH ... --] [OPTION OF THE JOB ...]
  local options=()
  if [[ " $* " == *" -- "* ]]; then
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
  fi
  job=$(as_person sbatch --parsable "${options[@]}" "$work/configs/troupe.sbatch" run.toml "$@")
  echo "job $job"
}

try_template() {
  export TROUPE_BINARY=$work/troupe
  submit
  await 120 "launch 1, with steps" has_steps 1 12
  [ "$(state)" = RUNNING ] || fail "the job is $(state) while it trains"

  local at
  as_person scontrol requeue "$job"
  await 60 "the job queued again" in_state PENDING
  at=$(last_step)
  went_on 2 $((at - 10)) "$at"  # checkpoints are five steps apart

  as_person scancel --signal=USR1 --batch "$job"
  await 120 "the job queued again" in_state PENDING
  at=$(last_step)
  went_on 3 "$at" "$at"

  kill -KILL "$(pgrep -f -- "^$work/troupe node .*--name n2-")"
  await 180 "the job queued again" in_state PENDING
  at=$(last_step)
  went_on 4 $((at - 10)) "$at"

  as_person scancel --signal=INT --batch "$job"
  await 120 "the job's end" in_state "COMPLETED FAILED"
  await 60 "both nodes idle" both_idle
  at=$(last_step)
  [ "$(exit_code)" = 130 ] || fail "the signal ends it with $(exit_code), expected 130"
  echo "ended by the signal after step $at"
  submit --gres=none -- --set "train.steps=$((at + 20))"
  await 300 "the job's end" in_state "COMPLETED FAILED"
  [ "$(state)" = COMPLETED ] && [ "$(last_step)" = $((at + 20)) ] ||
    fail "the job is $(state) after step $(last_step), expected COMPLETED after $((at + 20))"
  [ "$(resumed_after)" = "$at" ] || fail "the last start goes on after step $(resumed_after), expected $at"
  await 60 "both nodes idle" both_idle
  [ -z "$(find "$work/job" -name 'certs-*')" ] || fail "certificates were left"
  ! pgrep -f "^$work/troupe " || fail "processes were left"
}

if [ "${1-}" = --within ]; then
  work=$2
  trap 'echo "FAILED: $BASH_COMMAND (line $LINENO)" >&2' ERR
  export SLURM_CONF=$work/slurm.conf
  ip link set lo up
  ip address add 192.0.2.1/32 dev lo  # Slurm opens no socket where there is loopback alone
  ip address add 192.0.2.2/32 dev lo
  hostname head
  mount --bind "$work/hosts" /etc/hosts
  start_slurm
  try_template
  exit 0
fi

# --- outside --------------------------------------------------------------------------------------------------------

[ $# -ge 1 ] || { echo "usage: $0 TROUPE [FOLDER]" >&2; exit 64; }
program=$1
[ -x "$program" ] || { echo "$program: no such program" >&2; exit 64; }
[ "$(id -u)" = 0 ] || skip "slurmd runs as root"
for needed in slurmctld slurmd sbatch munged ip unshare; do
  command -v "$needed" >/dev/null ||
    skip "$needed is missing: apt-get install slurmctld slurmd slurm-client munge iproute2"
done
unshare --mount --pid --net --uts --fork true 2>/dev/null || skip "no namespaces may be made here"

folder=${2:-}
if [ -n "$folder" ]; then mkdir -p "$folder"; fi
work=$(mktemp -d -p "$(realpath "${folder:-${TMPDIR:-/tmp}}")" one-machine-slurm-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work"/{state,log,job,configs,munge/key}
chmod 700 "$work/munge/key"
cp "$program" "$work/troupe"
cp "$template" "$work/configs/"
printf '%s\n' '127.0.0.1 localhost' '192.0.2.1 head n1' '192.0.2.2 n2' >"$work/hosts"
for ((line = 0; line < 3000; line++)); do echo "Line $line of a text that is trained on."; done >"$work/job/text.txt"
cat >"$work/job/run.toml" <<'JOB'
[job]
name = "slurm"
[cluster]
nodes = 2
[parallel]
data = 2
[model]
family = "llama"
layers = 2
heads = 4
hidden = 128
[data]
tokenizer = "bytes"
path = "text.txt"
[train]
steps = 100000
batch = 16
seq_len = 128
[checkpoint]
every = 5
keep = 2
JOB
chown -R nobody: "$work/job"
runuser -u nobody -- test -x "$work/troupe" || skip "nobody cannot look into $work: name another folder"
unshare --mount --pid --net --uts --fork --kill-child --mount-proc bash "$here/one_machine_slurm.sh" --within "$work" \
  </dev/null
echo "all holds: $(slurmctld -V), two nodes on one machine"
