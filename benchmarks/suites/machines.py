"""Machines that meet and are lost: our launcher and torchrun, each as two machines on one host.

- **Meeting**: the first launcher has waited; from the start of the second one until the ranks of both run.
- **Recovery**: the launcher of the second machine and its rank are killed at once, as if the machine were lost; from
  then until the rank of the first begins again, alone. Both with the rendezvous c10d, one to two machines, and with
  ranks in Python that reduce a number again and again: torchrun goes on only when a rank fails.
- **Many ranks**: 64 ranks of a program that does nothing, from the start of the command to its end.
- **Steps**: a language model of 27.1 million weights, 4 x 64 tokens a rank, one rank on each of two hosts (network
  namespaces) whose cable carries 1 Gbit/s each way (`tc tbf`), fp32, AdamW. Theirs are Python Accelerate's DDP and
  PyTorch's FSDP 2, over Gloo under `torchrun`. **Sent**: what the cable of one host carried from it, in the whole run,
  by the number of its steps; it depends on no clock.

Ranks write down when they begin.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from harness import BenchmarkError, Contender, Summary, alternate, free_port, run, stop
from report import Absent, AtMost, Row, Share, Times
from two_hosts import ADDRESSES, CABLE, two_hosts, why_not

TITLE = "Machines: ours and torchrun"
PROGRAMS = ("no_op", "sharded_steps")
ROUNDS = 5
RANK = 'mkdir -p "{folder}/$WORLD_SIZE"; date +%s%N > "{folder}/$WORLD_SIZE/$RANK.part"; ' \
       'mv "{folder}/$WORLD_SIZE/$RANK.part" "{folder}/$WORLD_SIZE/$RANK"; exec {work}'
REDUCES = """python -c 'import time, torch, torch.distributed as d
d.init_process_group("gloo")
open("{folder}/reduces" + str(d.get_rank()), "w").close()
while True:
    d.all_reduce(torch.zeros(1))
    time.sleep(0.02)'"""
LIMIT_SECONDS = 120
MEGABITS = 1000
STEPS, QUICK_STEPS = (2, 6, 1), (1, 1, 1)  # To warm up, blocks, steps a block.
SHARDED = ("--use_fsdp", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--fsdp_transformer_layer_cls_to_wrap", "Block",
           "--fsdp_backward_prefetch", "BACKWARD_PRE", "--fsdp_forward_prefetch", "true")


def ours(setting, port, rank, program, nodes):
    words = ["--rdzv_backend", "c10d", "--rdzv_conf", "last_call_timeout=5"] if ":" in nodes else ["--machine_rank", rank]
    return [setting.accelerate, "launch", "--cpu", "--num_machines", nodes, "--num_processes", 2, *words,
            "--main_process_ip", "127.0.0.1", "--main_process_port", port, *program]


def theirs(setting, port, rank, program, nodes):
    where = (["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "b", "--rdzv-conf", "last_call_timeout=5"]
             if ":" in nodes else ["--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port])
    return [setting.venv / "bin" / "torchrun", "--nnodes", nodes, "--nproc-per-node", 1, "--max-restarts", 3, *where,
            "--no-python", *program]


def begun(folder, ranks, limit=LIMIT_SECONDS):
    """When the last of `ranks` ranks began, on the machine's clock."""
    end = time.monotonic() + limit
    files = [folder / str(ranks) / str(rank) for rank in range(ranks)]
    while not all(file.exists() for file in files):
        if time.monotonic() > end:
            raise BenchmarkError(f"{ranks} ranks did not begin within {limit} s")
        time.sleep(0.002)
    return max(int(file.read_text()) for file in files)


@contextlib.contextmanager
def two_machines(setting, words, work, nodes, head_start):
    """Starts both launchers, the second one `head_start` seconds later; yields them, the folder and when that was."""
    with tempfile.TemporaryDirectory() as name:
        folder, port, started = pathlib.Path(name), free_port(), []
        program = ["/bin/sh", "-c", RANK.format(folder=folder, work=work.format(folder=folder))]
        try:
            for rank in (0, 1):
                at = time.time_ns()
                command = [str(word) for word in words(setting, port, rank, program, nodes)]
                started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL, env=setting.environment(), start_new_session=True))
                if rank == 0:
                    time.sleep(head_start)
            yield started, folder, at
        finally:
            for launcher in started:
                stop(launcher)
                launcher.wait()


def meeting(setting, words):
    def sample():
        with two_machines(setting, words, "sleep 1", "2", 1 if setting.quick else 6) as (_, folder, at):
            return (begun(folder, 2) - at) / 1e6
    return sample


def children_of(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def recovery(setting, words):
    def sample():
        with two_machines(setting, words, REDUCES, "1:2", 0.5) as (launchers, folder, _):  # The first one holds the store.
            begun(folder, 2)
            while not all((folder / f"reduces{rank}").exists() for rank in (0, 1)):
                time.sleep(0.02)
            time.sleep(0.5)
            lost = [launchers[1].pid, *children_of(launchers[1].pid)]
            at = time.time_ns()
            for process in lost:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return (begun(folder, 1) - at) / 1e6
    return sample


def many_ranks(setting, command):
    return lambda: run(setting, command()).seconds * 1e3


def our_steps(setting, port, rank, steps, flags):
    return [setting.accelerate, "launch", *flags, "--num_machines", 2, "--machine_rank", rank, "--num_processes", 2,
            "--main_process_ip", ADDRESSES[0], "--main_process_port", port, setting.program("sharded_steps"), *steps]


def their_steps(setting, port, rank, steps, original):
    return ["env", f"GLOO_SOCKET_IFNAME={CABLE}", setting.venv / "bin" / "torchrun", "--nnodes", 2, "--node-rank", rank,
            "--nproc-per-node", 1, "--master-addr", ADDRESSES[0], "--master-port", port, setting.original(original), *steps]


def across(setting, hosts, words, of):
    """Runs a rank on each host; returns the milliseconds of each step and the megabytes that host 0 sent in a step."""
    steps = QUICK_STEPS if setting.quick else STEPS

    def sample():
        port, before = free_port(), hosts.sent_bytes(0)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            ranks = [pool.submit(run, setting, [*hosts.on(rank), *words(setting, port, rank, steps, of)]) for rank in (0, 1)]
            first, _ = [rank.result() for rank in ranks]
        sent = (hosts.sent_bytes(0) - before) / (steps[0] + steps[1] * steps[2]) / 1e6
        return [seconds * 1e3 / steps[2] for seconds in first.report()["block_seconds"]], sent
    return sample


def steps_across(setting, say):
    kinds = {"DDP": (("--cpu",), "ddp_steps"), "FULL_SHARD": (SHARDED, "fsdp2_steps")}
    if why_not():
        return [Absent(f"a step of {kind} across hosts", why_not()) for kind in kinds]
    rows = []
    with two_hosts(MEGABITS) as hosts:
        for kind, (flags, original) in kinds.items():
            samples = alternate([Contender("ours", across(setting, hosts, our_steps, flags)),
                                 Contender("theirs", across(setting, hosts, their_steps, original))],
                                setting.rounds, say, warm_up=False)  # Each run has steps to warm up.
            times = {name: Summary.of(step for steps, _ in of for step in steps) for name, of in samples.items()}
            sent = {name: Summary.of(sent for _, sent in of) for name, of in samples.items()}
            rows += [Row(f"a step of {kind} across hosts", "ms", times["ours"], times["theirs"], Share(0.9)),
                     Row("sent by a rank in it", "MB", sent["ours"], sent["theirs"])]
    return rows


def row(setting, say, what, mine, other, target):
    samples = alternate([Contender("ours", mine), Contender("theirs", other)], setting.rounds, say)
    return Row(what, "ms", Summary.of(samples["ours"]), Summary.of(samples["theirs"]), target)


def measure(setting, say):
    no_op = setting.program("no_op")
    rows = [row(setting, say, "meeting, 2 machines", meeting(setting, ours), meeting(setting, theirs), Times(4)),
            row(setting, say, "recovery from a lost machine", recovery(setting, ours), recovery(setting, theirs), Times(3)),
            row(setting, say, "64 ranks", many_ranks(setting, lambda: setting.launch(64, no_op)),
                many_ranks(setting, lambda: setting.torchrun(64, "--no-python", no_op)), AtMost(5000))]
    return rows + steps_across(setting, say)
