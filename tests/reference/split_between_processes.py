#!/usr/bin/env python3
"""Writes split_between_processes.txt: what PartialState.split_between_processes of Python Accelerate gives
every rank. A row: kind, length, ranks, padding, then the ranks' elements as "0 1|2 3".

Usage: split_between_processes.py [OUTPUT]
"""
import pathlib
import sys

import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType

LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 33)
RANKS = (1, 2, 3, 4, 7)


def value_of(kind, length):
    if kind == "tensor":
        return torch.arange(length)
    if kind == "dict":
        return {"a": list(range(length)), "b": list(range(length))}
    return list(range(length))


def part(state, kind, length, padding):
    with state.split_between_processes(value_of(kind, length), apply_padding=padding) as mine:
        if kind == "dict":
            assert mine["a"] == mine["b"]
            mine = mine["a"]
        return " ".join(str(int(x)) for x in mine)


def rows():
    state = PartialState(cpu=True)
    for kind in ("list", "tensor", "dict"):
        for length in LENGTHS:
            for ranks in RANKS:
                for padding in (False, True):
                    if padding and (kind != "list" or length == 0):
                        continue  # upstream pads tensors by a collective, and has no last element of none
                    state.num_processes = ranks
                    state.distributed_type = DistributedType.MULTI_CPU if ranks > 1 else DistributedType.NO
                    parts = []
                    for rank in range(ranks):
                        state.process_index = rank
                        parts.append(part(state, kind, length, padding))
                    yield f"{kind} {length} {ranks} {int(padding)} " + "|".join(parts)


def main():
    here = pathlib.Path(__file__).resolve().parent / "split_between_processes.txt"
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here
    lines = list(rows())
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} rows")


if __name__ == "__main__":
    main()
