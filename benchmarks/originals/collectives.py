"""Times every collective of torch.distributed over Gloo, as programs/collectives.cpp does ours.

usage: collectives.py KIB BLOCKS CALLS_PER_BLOCK
"""
import sys
import time

import torch
import torch.distributed as dist

import measure


class Collectives:
    def __init__(self, numbers, blocks, calls):
        self.blocks, self.calls = blocks, calls
        # Zeros, written once: sums of them never grow, and every page is there.
        self.whole, self.other = torch.empty(numbers).zero_(), torch.empty(numbers).zero_()
        self.part = torch.empty(numbers // dist.get_world_size()).zero_()
        parts = list(self.whole.split(len(self.part))) if dist.get_rank() == 0 else None
        self.neighbour, self.turn = dist.get_rank() ^ 1, 0
        self.collectives = {
            "all_reduce": lambda: dist.all_reduce(self.whole),
            "reduce_scatter": lambda: dist.reduce_scatter_single(self.part, self.whole),
            "all_gather": lambda: dist.all_gather_single(self.whole, self.part),
            "broadcast": lambda: dist.broadcast(self.whole, 0),
            "reduce": lambda: dist.reduce(self.whole, 0),
            "gather": lambda: dist.gather(self.part, parts, 0),
            "scatter": lambda: dist.scatter(self.part, parts, 0),
            "all_to_all": lambda: dist.all_to_all_single(self.other, self.whole),
            "send": self.send_or_receive,
            "barrier": dist.barrier,
        }

    def send_or_receive(self):
        sends = (dist.get_rank() + self.turn) % 2 == 0
        self.turn += 1
        if sends:
            dist.send(self.whole, self.neighbour)
        else:
            dist.recv(self.other, self.neighbour)

    def block(self, call, calls):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        dist.barrier()
        return (time.perf_counter() - start) / calls

    def seconds(self):
        """Of one call, block by block; a first block does not count."""
        result = {}
        for name, call in self.collectives.items():
            calls = self.calls * (2 if name == "send" else 1)
            result[name] = [self.block(call, calls) for _ in range(self.blocks + 1)][1:]
        return result


def main(kib, blocks, calls):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds = Collectives(kib * 1024 // 4, blocks, calls).seconds()
    if dist.get_rank() == 0:
        measure.report(seconds=seconds, ranks=dist.get_world_size())
    dist.destroy_process_group()


main(*map(int, sys.argv[1:]))
