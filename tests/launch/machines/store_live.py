#!/usr/bin/env python3
"""Compares the launcher's store with torch's TCPStore, and joins a launcher of torchrun with ours.

usage: store_live.py ACCELERATE [--seed N] [--calls N]

The same random calls go to both stores from several clients; answers, errors and the keys at the end must be equal. Then
torchrun starts one machine of a job and `accelerate launch` the other, each once as machine 0.
"""
import argparse
import datetime
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading

try:
    import torch.distributed as dist
except ImportError:
    print("there is no torch in this environment")
    sys.exit(77)

CLIENTS = 3
SHORT = datetime.timedelta(milliseconds=150)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def launcher(command, port, machine, words, processes=4):
    return [command, "launch", "--cpu", "--num_machines", "2", "--machine_rank", str(machine), "--num_processes",
            str(processes), "--main_process_ip", "127.0.0.1", "--main_process_port", str(port), *words]


def clients_of(port):
    return [dist.TCPStore("127.0.0.1", port, None, False, datetime.timedelta(seconds=20), wait_for_workers=False)
            for _ in range(CLIENTS)]


def random_call(rng):
    """Returns a client, a method and its arguments."""
    key = rng.choice("abcdef") * rng.choice((1, 1, 1, 300))
    value = rng.choice(("", "x", "text " * rng.randrange(1, 2000), str(rng.randrange(-99, 99))))
    keys = [rng.choice("abcdef") for _ in range(rng.randrange(1, 4))]
    call = rng.choice((("set", key, value), ("append", key, value), ("get", key), ("check", keys),
                       ("delete_key", key), ("num_keys",), ("compare_set", key, rng.choice(("", "x")), value),
                       ("multi_set", keys, [value] * len(keys)), ("multi_get", keys), ("wait", keys, SHORT),
                       ("add", "sum" + rng.choice("12"), rng.randrange(-5, 9)), ("queue_push", "q" + key[0], value),
                       ("queue_len", "q" + key[0]), ("queue_pop", "q" + key[0], False), ("list_keys",)))
    return rng.randrange(CLIENTS), call


def answer(client, name, *arguments):
    # A key that is missing ends the connection in c10d, after it has waited; so its absence is seen first.
    if name in ("get", "multi_get"):
        keys = arguments[0] if isinstance(arguments[0], list) else [arguments[0]]
        if not client.check(keys):
            return "missing"
    try:
        result = getattr(client, name)(*arguments)
    except Exception as error:  # noqa: BLE001: the kinds are compared
        return type(error).__name__
    if name in ("set", "multi_set", "append", "queue_push"):
        # c10d's client returns before the store has the value: the next client would race it. An answer ends the race.
        client.check(["a"])
    if name == "list_keys":
        return sorted(key for key in result if not key.startswith(("accelerate/", "none/", "init/")))
    return result if name != "num_keys" else "a number"


def barrier_of(clients):
    """All but one wait; the last lets them go."""
    done = []
    threads = [threading.Thread(target=lambda c=c: (c.barrier("here", CLIENTS, datetime.timedelta(seconds=10)), done.append(1)))
               for c in clients[1:]]
    for thread in threads:
        thread.start()
    threads[0].join(0.2)
    before = len(done)
    clients[0].barrier("here", CLIENTS, datetime.timedelta(seconds=10))
    for thread in threads:
        thread.join(10)
    return before, len(done)


def compare_stores(command, seed, calls):
    port = free_port()
    waiting = subprocess.Popen(launcher(command, port, 0, ["/bin/true"]), stderr=subprocess.DEVNULL)
    theirs_host = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    try:
        ours, theirs = clients_of(port), clients_of(theirs_host.port)
        rng = random.Random(seed)
        for number in range(calls):
            client, call = random_call(rng)
            a, b = answer(ours[client], *call), answer(theirs[client], *call)
            if a != b:
                sys.exit(f"seed {seed}, call {number}, {call!r:.200}: ours says {a!r:.200}, c10d's {b!r:.200}")
        if hasattr(ours[0], "barrier") and (got := (barrier_of(ours), barrier_of(theirs))) != ((0, 2), (0, 2)):
            sys.exit(f"barriers: {got}")
    finally:
        waiting.kill()
        waiting.wait()
    print(f"stores: {calls} calls of {CLIENTS} clients are answered alike")


SHOW = """#!/bin/sh
echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $ROLE_RANK $ROLE_WORLD_SIZE $MASTER_ADDR" \\
  "$MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_RUN_ID" > {folder}/$RANK
"""
SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(one)
open(os.path.join({folder!r}, "sum" + str(dist.get_rank())), "w").write(str(one.tolist()))
dist.barrier()
dist.destroy_process_group()
"""


def run_both(command, first_is_ours, words, flags=()):
    """Runs a job of two machines, one started by torchrun, ours with `flags`; returns the exit codes."""
    port = free_port()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2", "--master-addr",
                "127.0.0.1", "--master-port", str(port), "--rdzv-backend", "static", "--no-python"]
    both = [launcher(command, port, 0 if first_is_ours else 1, [*flags, *words]),
            [*torchrun, "--node-rank", "1" if first_is_ours else "0", *words]]
    environment = {k: v for k, v in os.environ.items() if k != "ACCELERATE_JOB_TOKEN"} | {"OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(one, stderr=subprocess.DEVNULL, env=environment) for one in both]
    try:
        return [one.wait(120) for one in started]
    finally:
        for one in started:
            one.kill()


def join_torchrun(command):
    for first_is_ours in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            show = pathlib.Path(folder, "show.sh")
            show.write_text(SHOW.format(folder=folder))
            show.chmod(0o755)
            if (codes := run_both(command, first_is_ours, [str(show)])) != [0, 0]:
                sys.exit(f"ours first: {first_is_ours}: exit codes {codes}")
            for rank in range(4):
                got = pathlib.Path(folder, str(rank)).read_text().split()
                expected = [str(rank), str(rank % 2), "4", "2", str(rank // 2), "2", str(rank), "4", "127.0.0.1"]
                if got[:9] != expected or got[10:] != ["True", "none"]:
                    sys.exit(f"ours first: {first_is_ours}: rank {rank} was told {got}")
            program = pathlib.Path(folder, "sum.py")
            program.write_text(SUM.format(folder=folder))
            run_both(command, first_is_ours, [sys.executable, str(program)])
            sums = {pathlib.Path(folder, f"sum{rank}").read_text() for rank in range(4)}
            if sums != {"[10.0, 10.0, 10.0]"}:
                sys.exit(f"ours first: {first_is_ours}: sums {sums}")
    # Nothing is started again: torchrun would not come to another round.
    codes = run_both(command, True, ["/bin/sh", "-c", "[ $LOCAL_RANK = 0 ] || exit 7; sleep 5"], ("--max_restarts", "1"))
    if codes[0] != 7:
        sys.exit(f"a rank of ours failed in a job with torchrun: exit codes {codes}")
    print("torchrun: one job with it as machine 0 and as machine 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("accelerate")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--calls", type=int, default=1500)
    arguments = parser.parse_args()
    compare_stores(arguments.accelerate, arguments.seed, arguments.calls)
    join_torchrun(arguments.accelerate)


if __name__ == "__main__":
    main()
