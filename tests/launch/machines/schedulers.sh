#!/usr/bin/env bash
# Starts jobs through the schedulers themselves: Slurm with two nodes on this host, Open MPI, MPICH, and ssh to a
# server on loopback.
#
# usage: schedulers.sh BUILD [slurm] [mpi] [ssh]
#
# Needs root and the packages of `scripts/setup --machines`; exits with 77 if either is missing. All daemons are this
# script's own, and end with it. Files in /etc and /run are seen by this script alone.
set -euo pipefail

if [[ ${1:-} != --inside ]]; then
  [[ $(id -u) == 0 ]] || { echo "schedulers.sh needs root"; exit 77; }
  for program in slurmctld slurmd munged mpirun.openmpi mpirun.mpich sshd; do
    PATH=$PATH:/usr/sbin command -v "$program" >/dev/null ||
      { echo "there is no $program (scripts/setup --machines installs it)"; exit 77; }
  done
  exec unshare --mount -- "$0" --inside "$@"
fi
shift
build=$(realpath "$1")
shift
readonly parts=${*:-slurm mpi ssh}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
export PATH=$PATH:/usr/sbin
export ACCELERATE=$build/bin/accelerate
readonly probe=$build/tests/launch_probe
readonly training=$build/tests/preempted_probe
work=$(mktemp -d)
chmod 755 "$work"
mount --make-rprivate /
failures=0

check() { # check WHAT COMMAND…: says whether the command succeeds
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else echo "FAILED: $what"; failures=$((failures + 1)); fi
}
told() { # told FOLDER RANK NAME=VALUE…: what the rank's environment must hold
  local file=$1/$2 line
  shift 2
  for line; do
    tr '\0' '\n' <"$file" 2>/dev/null | grep -qx "$line" || { echo "  $file lacks $line"; return 1; }
  done
}
eventually() { # eventually SECONDS COMMAND…
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
fresh() { rm -rf "$work/marks"; mkdir -p "$work/marks"; chmod 777 "$work/marks"; }
ranks_of_two_nodes() {
  local rank
  for rank in 0 1 2 3; do
    told "$work/marks" $rank RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 || return 1
  done
}

# --- Slurm -----------------------------------------------------------------------------------------
pids=()
end_all() {
  local pid
  if [[ -e $work/ctld.pid ]]; then
    scancel -u root || true
    eventually 20 no_job || true
  fi
  for pid in "${pids[@]}" $(cat "$work"/*/*.pid "$work"/*.pid 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
  sleep 0.5
  rm -rf "$work"
}
trap end_all EXIT

start_slurm() {
  local host node
  host=$(hostname)
  mkdir -p "$work"/{etc,munge,state,n1,n2,log} /run/munge /etc/slurm
  cat /etc/hosts - >"$work/hosts" <<<"127.0.0.1 n1 n2"
  mount --bind "$work/hosts" /etc/hosts
  mount -t tmpfs tmpfs /run/munge
  mount --bind "$work/etc" /etc/slurm
  dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 2>/dev/null
  chown -R munge:munge "$work/munge" /run/munge
  chmod 700 "$work/munge"
  chmod 600 "$work/munge/key"
  chmod 755 /run/munge
  setpriv --reuid munge --regid munge --clear-groups munged --force --key-file "$work/munge/key" \
    --log-file "$work/munge/log" --pid-file "$work/munge/munged.pid" --seed-file "$work/munge/seed"
  cat >"$work/etc/slurm.conf" <<C
ClusterName=accelerate
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldPort=36817
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/%n/slurmd.pid
SlurmdSpoolDir=$work/%n
StateSaveLocation=$work/state
SlurmctldLogFile=$work/log/ctld.log
SlurmdLogFile=$work/log/%n.log
ReturnToService=2
MpiDefault=none
JobRequeue=1
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
KillWait=5
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=36821 CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=36822 CPUs=2 RealMemory=1000
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 MaxTime=10 GraceTime=5
PartitionName=high Nodes=ALL PriorityTier=10 MaxTime=10
C
  echo "CgroupAutomount=no" >"$work/etc/cgroup.conf"
  slurmctld
  sleep 1
  for node in n1 n2; do slurmd -N "$node"; done
  eventually 30 eval '[[ $(sinfo -h -o %T -p low) == idle ]]'
}
batch() { # batch ARGUMENTS…: submits the example and waits for it
  (cd "$work" && sbatch --wait -p low -o "$work/job.out" "$@")
}
no_job() { [[ -z $(squeue -h) ]]; }

slurm() {
  start_slurm
  fresh
  check "sbatch starts one launcher a node" env LAUNCH_FLAGS="--cpu --num_processes 4" \
    timeout 60 bash -c "$(declare -f batch); work=$work; batch '$here/examples/slurm/train.sbatch' '$probe' tag 'env=$work/marks'"
  check "its ranks are those of one job" ranks_of_two_nodes
  check "the launcher says what it took" grep -q "taken from Slurm: num_machines 2 (SLURM_STEP_NUM_NODES)" "$work/job.out"
  [[ $failures == 0 ]] || cat "$work/job.out"

  fresh
  check "tasks become ranks" timeout 60 srun -N 2 --ntasks-per-node 2 "$ACCELERATE" launch --cpu "$probe" tag "env=$work/marks"
  check "whose numbers are Slurm's" ranks_of_two_nodes
  check "and which meet at the first node" told "$work/marks" 3 MASTER_ADDR=n1

  local code=0
  timeout 60 srun -N 2 --ntasks-per-node 1 "$ACCELERATE" launch --cpu --num_processes 4 "$probe" tag 3:exit=9 sleep=60000 \
    2>"$work/failed.err" || code=$?
  check "a failed rank ends all nodes with its code ($code)" test $code = 9
  check "and is named on the other node" grep -q "machine 1 (.*): rank 3 (pid [0-9]*) exited with code 9" "$work/failed.err"

  fresh
  (cd "$work" && LAUNCH_FLAGS="--cpu --num_processes 2" sbatch -p low -o "$work/low.out" --time 5 \
    "$here/examples/slurm/train.sbatch" "$probe" tag "mark=$work/marks" catch=15 sleep=60000) >/dev/null
  check "a job of low priority runs" eventually 30 test -e "$work/marks/1"
  rm -f "$work/marks"/*
  check "one of high priority takes its place" timeout 60 srun -p high -N 2 --ntasks-per-node 2 true
  check "the ranks were told by SIGTERM" eventually 10 grep -q "caught 15" "$work/low.out"
  # Slurm lets a job begin again two minutes after its requeue.
  check "and it is queued again" eventually 30 eval '[[ $(squeue -h -p low -o %T) == PENDING ]]'
  scancel -u root
  check "nothing is left" eventually 30 no_job

  # The signal that --signal=USR1@90 sends, to the same processes.
  fresh
  mkdir "$work/whole" "$work/cut"
  check "a training of two nodes runs" env LAUNCH_FLAGS="--cpu --num_processes 2" \
    timeout 120 bash -c "$(declare -f batch); work=$work; batch '$here/examples/slurm/train.sbatch' '$training' loop '$work/whole'"
  local job
  job=$(cd "$work" && PREEMPTED_MARKS=$work/marks LAUNCH_FLAGS="--cpu --num_processes 2 --max_restarts 1" sbatch --parsable -p low \
    -o "$work/cut.out" "$here/examples/slurm/train.sbatch" "$training" loop "$work/cut")
  check "another one is under way" eventually 60 test -e "$work/marks/1"
  scancel --signal=USR1 "$job"
  check "SIGUSR1 has it queued again" eventually 60 eval '[[ $(squeue -h -j '"$job"' -o %T) == PENDING ]]'
  check "saved and not started again by the launcher" \
    eval '[[ -e $work/cut/state/manifest.json && ! -e $work/cut/weights ]] && ! grep "starting all ranks again" "$work/cut.out"'
  scontrol update JobId="$job" StartTime=now
  check "it goes on" eventually 120 test -e "$work/cut/weights"
  check "to the same weights" cmp "$work/whole/weights" "$work/cut/weights"
  [[ $failures == 0 ]] || cat "$work/cut.out"
  eventually 30 no_job || true

  fresh
  (cd "$work" && LAUNCH_FLAGS="--cpu --num_processes 2" sbatch -p low -o "$work/cancelled.out" \
    "$here/examples/slurm/train.sbatch" "$probe" tag "mark=$work/marks" catch=15 sleep=60000) >/dev/null
  eventually 30 test -e "$work/marks/1" || true
  scancel -u root
  check "a cancelled job ends" eventually 30 no_job
  sleep 1
  check "and does not come back" no_job
}

# --- MPI -------------------------------------------------------------------------------------------
mpi() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  grep -q n1 /etc/hosts || { cat /etc/hosts - >"$work/hosts" <<<"127.0.0.1 n1 n2"; mount --bind "$work/hosts" /etc/hosts; }
  local kind
  for kind in openmpi mpich; do
    fresh
    check "$kind: tasks of one host become ranks" timeout 60 "mpirun.$kind" -n 4 "$ACCELERATE" launch --cpu "$probe" tag "env=$work/marks"
    check "$kind: whose numbers are MPI's" eval 'for r in 0 1 2 3; do told "$work/marks" $r RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r || exit 1; done'
    mkdir -p "$work/bin.$kind"
    printf '#!/bin/sh\nexec mpirun.%s "$@"\n' "$kind" >"$work/bin.$kind/mpirun"
    chmod +x "$work/bin.$kind/mpirun"
    fresh
    echo localhost >"$work/hostfile"
    [[ $kind == mpich ]] || echo "localhost slots=4" >"$work/hostfile"
    check "$kind: --mpirun_hostfile starts it" env PATH="$work/bin.$kind:$PATH" timeout 60 "$ACCELERATE" launch --cpu \
      --num_processes 2 --mixed_precision bf16 --mpirun_hostfile "$work/hostfile" "$probe" tag "env=$work/marks"
  done
  # The name of a rank's file is RANK, which MPI does not set: both write 0. What it holds is what counts.
  check "mpich: and hands over the settings" told "$work/marks" 0 ACCELERATE_MIXED_PRECISION=bf16 PMI_SIZE=2
  fresh
  check "mpich: one launcher on each of two hosts" timeout 60 mpirun.mpich -launcher fork -hosts n1,n2 -ppn 1 -n 2 \
    -genv MASTER_ADDR 127.0.0.1 "$ACCELERATE" launch --cpu --num_processes 4 "$probe" tag "env=$work/marks"
  check "mpich: whose ranks are those of one job" ranks_of_two_nodes
}

# --- ssh -------------------------------------------------------------------------------------------
processes_of() { # processes_of WORD: how many processes have it in their command line
  grep -lszF -f <(printf '%s' "$1") /proc/[0-9]*/cmdline | wc -l
}
no_process_of() { [[ $(processes_of "$1") == 0 ]]; }

ssh_to_loopback() {
  local code=0 launcher port=36022
  mkdir -p "$work/ssh" "$work/bin.ssh" /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/key"
  ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/host"
  cp "$work/ssh/key.pub" "$work/ssh/authorized"
  "$(command -v sshd)" -f /dev/null -p $port -h "$work/ssh/host" -o ListenAddress=127.0.0.1 -o StrictModes=no -o UsePAM=no \
    -o AuthorizedKeysFile="$work/ssh/authorized" -o PidFile="$work/ssh/sshd.pid"
  printf 'Host node1 node2\n HostName 127.0.0.1\n Port %s\n IdentityFile %s\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n' \
    $port "$work/ssh/key" >"$work/ssh/config"
  printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$work/ssh/config" >"$work/bin.ssh/ssh"
  chmod +x "$work/bin.ssh/ssh"
  printf 'node1 slots=2\nnode2 slots=2\n' >"$work/hosts.ssh"
  eventually 10 "$work/bin.ssh/ssh" node1 true
  local -a launch=("$ACCELERATE" launch --cpu --deepspeed_hostfile "$work/hosts.ssh" --main_process_ip 127.0.0.1)
  export PATH=$work/bin.ssh:$PATH ACCELERATE_JOB_TOKEN=00112233445566778899aabbccddeeff

  fresh
  check "ssh: one launcher on each host" timeout 60 "${launch[@]}" "$probe" tag "env=$work/marks"
  check "ssh: whose ranks are those of one job" ranks_of_two_nodes
  check "ssh: with the token" told "$work/marks" 3 ACCELERATE_JOB_TOKEN=$ACCELERATE_JOB_TOKEN
  timeout 60 "${launch[@]}" "$probe" tag 3:exit=9 sleep=60000 2>"$work/ssh.err" || code=$?
  check "ssh: a failed rank ends all with its code ($code)" test $code = 9

  local signal
  for signal in INT KILL; do
    fresh
    "${launch[@]}" "$probe" "$work/of_$signal" "mark=$work/marks" sleep=60000 2>>"$work/ssh.err" &
    launcher=$!
    # A job in the background ignores SIGINT, so SIGTERM stands for it.
    check "ssh: ranks run before SIG$signal" eventually 30 test -e "$work/marks/3"
    check "ssh: the token is on no command line" no_process_of $ACCELERATE_JOB_TOKEN
    kill -"${signal/INT/TERM}" $launcher || true
    wait $launcher 2>/dev/null || true
    check "ssh: none after it" eventually 30 no_process_of "$work/of_$signal"
  done
}

for part in $parts; do
  [[ $part != ssh ]] || part=ssh_to_loopback
  "$part"
done
echo "$failures failures"
exit $((failures > 0))
