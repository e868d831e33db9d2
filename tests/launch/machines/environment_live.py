#!/usr/bin/env python3
"""Compares what ranks on two machines are told by our launcher, by Python's and by torchrun, variable by variable.

usage: environment_live.py ACCELERATE [--show]

Both machines are on loopback. Each rank writes down its environment. A difference that DIFFERENCES does not list is a
failure; so is one that it lists and that is not there. docs/environment.md says why each is as it is.
"""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

if importlib.util.find_spec("accelerate") is None:
    print("there is no accelerate in this environment")
    sys.exit(77)

LIMIT_SECONDS = 240
NOTE = "import json, os, sys\n" \
       "rank = os.environ.get('RANK', os.environ.get('OMPI_COMM_WORLD_RANK'))\n" \
       "json.dump(dict(os.environ), open(f'{sys.argv[1]}/{rank}', 'w'))\n"
# Of a process, of this test, or of MPI's daemons, whose names and values differ from run to run.
OF_NO_INTEREST = re.compile(r"_|SHLVL|OLDPWD|PWD|OMPI_.*|PMIX_.*|PRTE_.*|ORTE_.*|HWLOC_.*|IPATH_.*|HFI_.*|PSM\d?_.*")
BY_MPI = {"PATH", "LD_LIBRARY_PATH"}  # Which Open MPI lengthens if it is started by its path.
PYTHON = [sys.executable, "-W", "ignore", "-m", "accelerate.commands.accelerate_cli", "launch"]
TORCHRUN = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run"]
SHARDED = ["--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--fsdp_transformer_layer_cls_to_wrap",
           "Block", "--mixed_precision", "bf16", "--num_processes", "4"]

# By mode: what differs, as patterns of theirs and of ours; None where a launcher does not set the variable.
OWN = {"ACCELERATE_JOB_TOKEN": (None, "[0-9a-f]{32}"), "ACCELERATE_LAUNCH_ID": (None, "[0-9a-f]{32}"),
       "ACCELERATE_CPU_CORES": (None, "[0-9,-]+"), "TORCHELASTIC_ERROR_FILE": (".*/error.json", ".*/error.json")}
UNASKED = {"ACCELERATE_DYNAMO_BACKEND": ("NO", None)}
DIFFERENCES = {
    "static": OWN | UNASKED,
    # There rank 0 holds a store of its own, on a machine that torchrun names by its host name.
    "c10d": OWN | UNASKED | {"MASTER_ADDR": (".+", "127.0.0.1"), "MASTER_PORT": ("[0-9]+", "PORT")},
    "torchrun": OWN | {"ACCELERATE_USE_CPU": (None, "True"), "KMP_BLOCKTIME": (None, "1"), "ACCELERATE_DYNAMO_.*": (None, ".*")},
    "mpirun": UNASKED | {"ACCELERATE_JOB_TOKEN": (None, "[0-9a-f]{32}"), "ACCELERATE_MIXED_PRECISION": ("no", None),
                         "KMP_AFFINITY": ("granularity=.*", None)},
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def machines(*words):
    def of(rank, port):
        place = ["--num_machines", "2", "--machine_rank", str(rank), "--main_process_ip", "127.0.0.1", "--main_process_port", port]
        return [*words, *place]
    return of


def torchrun(rank, port):
    return ["--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", port]


MODES = {
    "static": (machines(*SHARDED), machines(*SHARDED)),
    "c10d": (machines(*SHARDED, "--rdzv_backend", "c10d", "--max_restarts", "2"),
             machines(*SHARDED, "--rdzv_backend", "c10d", "--max_restarts", "2")),
    "torchrun": (torchrun, machines("--cpu", "--num_processes", "4")),
}
MPI = ["--cpu", "--num_processes", "2", "--mpirun_hostfile", "hosts", "--num_cpu_threads_per_process", "3", "--main_process_ip", "127.0.0.1"]


def by_mpi(rank, port):
    return [*MPI, "--main_process_port", port]


def launchers(mode, ours):
    """The two contenders of a mode: name, first words, words of a machine."""
    theirs_words, our_words = (by_mpi, by_mpi) if mode == "mpirun" else MODES[mode]
    first = TORCHRUN if mode == "torchrun" else PYTHON
    return (("theirs", first, theirs_words), ("ours", [ours, "launch"], our_words))


def plain_environment(folder):
    kept = {name: os.environ[name] for name in ("LANG", "LD_LIBRARY_PATH") if name in os.environ}
    # Both launchers start this Python.
    return kept | {"HOME": str(folder), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def start(folder, first, words, ranks):
    folder.mkdir(parents=True)
    (folder / "note.py").write_text(NOTE)
    (folder / "hosts").write_text("localhost slots=2\n")
    port = free_port()
    (folder / "port").write_text(port)
    started = []
    for rank in range(ranks):
        started.append(subprocess.Popen([*first, *words(rank, port), "note.py", str(folder)], cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=plain_environment(folder)))
        if rank + 1 < ranks:  # Python's machine 0 refuses a port that is taken, also by its peer on this host.
            await_listener(port, started[0])
    return started


def await_listener(port, launcher):
    end = time.monotonic() + LIMIT_SECONDS
    while launcher.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                return
        time.sleep(0.05)


def told(folder):
    """By rank, what the launcher added to the environment or changed in it."""
    before, port = plain_environment(folder), (folder / "port").read_text()
    found = {}
    for file in sorted(folder.iterdir()):
        if file.name.isdigit():
            all_of_rank = json.loads(file.read_text())
            found[file.name] = {name: "PORT" if value == port else value for name, value in all_of_rank.items()
                                if before.get(name) != value and name not in BY_MPI and not OF_NO_INTEREST.fullmatch(name)}
    return found


def differences(theirs, ours):
    """(rank, variable, theirs, ours) where the two are not alike."""
    for rank in theirs:
        for name in sorted(theirs[rank] | ours.get(rank, {})):
            pair = (theirs[rank].get(name), ours.get(rank, {}).get(name))
            if pair[0] != pair[1]:
                yield rank, name, *pair


def matches(pattern, value):
    return value is None if pattern is None else value is not None and re.fullmatch(pattern, value, re.DOTALL) is not None


def faults(mode, theirs, ours):
    listed, seen = DIFFERENCES[mode], set()
    if set(theirs) != set(ours) or not theirs:
        yield f"{mode}: ranks {sorted(theirs)} of theirs, {sorted(ours)} of ours"
    for rank, name, one, other in differences(theirs, ours):
        known = next((known for known in listed if re.fullmatch(known, name)), None)
        seen.add(known)
        if known is None or not (matches(listed[known][0], one) and matches(listed[known][1], other)):
            yield f"{mode}, rank {rank}: {name} is {one!r} with theirs and {other!r} with ours"
    for name in sorted(set(listed) - seen):
        yield f"{mode}: {name} is said to differ, and does not"


def run_mode(mode, ours, scratch):
    jobs = [(scratch / f"{mode}_{name}", start(scratch / f"{mode}_{name}", first, words, 1 if mode == "mpirun" else 2))
            for name, first, words in launchers(mode, ours)]
    for folder, started in jobs:
        for process in started:
            _, errors = process.communicate(timeout=LIMIT_SECONDS)
            if process.returncode != 0:
                sys.exit(f"{folder.name}: {errors.decode()}")
    return [told(folder) for folder, _ in jobs]


def main():
    ours, show = str(pathlib.Path(sys.argv[1]).resolve()), "--show" in sys.argv
    modes = [*MODES, *(["mpirun"] if shutil.which("mpirun") else [])]
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for mode in modes:
            theirs, of_ours = run_mode(mode, ours, pathlib.Path(scratch))
            found += faults(mode, theirs, of_ours)
            if show:
                print(mode, *sorted({line[1:] for line in differences(theirs, of_ours)}, key=str), sep="\n  ")
    if found:
        sys.exit("\n".join(found))
    print(f"{len(modes)} modes tell their ranks what the originals do: {', '.join(modes)}")


if __name__ == "__main__":
    main()
