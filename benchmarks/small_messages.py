#!/usr/bin/env python3
"""Says where the time of a small all-reduce over Gloo goes: microseconds, and how often its threads hand over to one another.

usage: small_messages.py [--bytes 4096] [--calls 3000]

Two ranks on loopback. Beside Gloo's all-reduce stands the same exchange by one thread each over a plain TCP connection,
whose reader sleeps until data comes, or polls. A hand-over is a voluntary context switch of any thread of a rank; it
depends on no clock. Needs torch (.venv/bin/python).
"""
import argparse
import multiprocessing
import os
import pathlib
import socket
import time


def hand_overs():
    count = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                count += int(line.split()[1])
    return count


def per_call(call, calls):
    """The least time of a call, over blocks of 100, and the hand-overs of one."""
    for _ in range(100):
        call()
    before, least = hand_overs(), float("inf")
    for _ in range(calls // 100):
        start = time.perf_counter()
        for _ in range(100):
            call()
        least = min(least, (time.perf_counter() - start) / 100)
    return least * 1e6, (hand_overs() - before) / (calls // 100 * 100)


def over_gloo(rank, port, options):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "2",
                   "GLOO_SOCKET_IFNAME": "lo"}
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensor = torch.zeros(options.bytes // 4)
    result = per_call(lambda: dist.all_reduce(tensor), options.calls)
    dist.destroy_process_group()
    return result


def connect(rank, port):
    """A connection between the two ranks."""
    if rank == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            made = server.accept()[0]
    else:
        while True:
            try:
                made = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def over_a_socket(rank, port, options, polls):
    with connect(rank, port) as peer:
        peer.setblocking(not polls)
        mine, theirs = bytes(options.bytes), bytearray(options.bytes)

        def exchange():
            peer.sendall(mine)
            view = memoryview(theirs)
            while view:
                try:
                    view = view[peer.recv_into(view):]
                except BlockingIOError:
                    pass
        return per_call(exchange, options.calls)


def of_rank(kind, rank, port, options, results):
    ways = {"gloo": over_gloo, "sleeps": lambda *all: over_a_socket(*all, polls=False), "polls": lambda *all: over_a_socket(*all, polls=True)}
    result = ways[kind](rank, port, options)
    if rank == 0:
        results.put(result)


def measure(kind, options):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = multiprocessing.Queue()
    ranks = [multiprocessing.Process(target=of_rank, args=(kind, rank, port, options, results)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    result = results.get(timeout=300)
    for rank in ranks:
        rank.join()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--calls", type=int, default=3000)
    options = parser.parse_args()
    names = {"gloo": "all-reduce over Gloo", "sleeps": "exchange by one thread that sleeps", "polls": "exchange by one thread that polls"}
    for kind, name in names.items():
        microseconds, switches = measure(kind, options)
        print(f"{name:36} {microseconds:7.1f} us  {switches:5.2f} hand-overs")


if __name__ == "__main__":
    main()
