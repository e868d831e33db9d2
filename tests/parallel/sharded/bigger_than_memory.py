#!/usr/bin/env python3
"""Trains a model whose states are four times a limit of memory, on disk: it gets the weights that it gets in memory, and moves the
bytes that docs/memory.md says.

usage: bigger_than_memory.py BUILD. Part of `scripts/test --extended`: 3 GB of memory and of disk, a minute or two. Exits 77 where no
control group can be made, which needs root.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "benchmarks"))
import confined  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
LIMIT = 512 << 20
BLOCKS, WIDTH, ROWS, STEPS = 64, 512, 64, 3
WEIGHTS = BLOCKS * (8 * WIDTH * WIDTH + 7 * WIDTH)
THIRD_MIB = WEIGHTS * 4 // 3 // 2**20 + 1


def train(place, memory, kept_mib=0, launch=()):
    """What a training in the control group `memory` reports."""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:  # /tmp may be memory.
        words = [*launch, BUILD / "tests" / "offload_probe", place or folder, BLOCKS, WIDTH, ROWS, STEPS, kept_mib]
        ended = subprocess.run([str(word) for word in confined.command(words, memory)], capture_output=True, text=True, timeout=600,
                               check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if ended.returncode != 0:
        raise AssertionError(f"{words} ended with {ended.returncode}, {memory.kills()} killed for memory: {ended.stderr}")
    return json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))


def results_of(report):
    """The hash of the weights and the losses, of each rank."""
    return [(rank["hash"], [step["loss"] for step in rank["steps"]]) for rank in report["by_rank"]]


class BiggerThanMemory(unittest.TestCase):
    def check(self, bytes_per_weight, limit=LIMIT, kept_mib=0, launch=()):
        with confined.groups(confined.Memory, lambda: confined.Memory(limit)) as (free, limited):
            expected = train("memory", free, launch=launch)
            found = train(None, limited, kept_mib, launch)
            self.assertEqual(limited.kills(), 0)
        self.assertEqual(found["parameters"], WEIGHTS)
        self.assertEqual(results_of(found), results_of(expected))
        _, losses = results_of(found)[0]
        self.assertLess(losses[-1], losses[0])
        for read, written in (("read", "written"), ("kernel_read", "kernel_written")):  # Of the last step.
            moved = sum(rank["steps"][-1][read] + rank["steps"][-1][written] for rank in found["by_rank"])
            self.assertAlmostEqual(moved / WEIGHTS, bytes_per_weight, delta=0.02 * bytes_per_weight, msg=read)

    def test_the_states_are_four_times_the_limit(self):
        self.assertGreaterEqual(16 * WEIGHTS, 4 * LIMIT)

    def test_everything_on_disk(self):
        self.check(40)

    def test_a_third_of_the_weights_in_memory(self):
        kept = THIRD_MIB * 2**20 // (4 * WEIGHTS // BLOCKS)  # Whole units.
        self.check(40 - 16 * kept / BLOCKS, kept_mib=THIRD_MIB)

    def test_bf16(self):
        self.check(38, launch=(BUILD / "bin" / "accelerate", "launch", "--cpu", "--num_processes", 1, "--mixed_precision", "bf16"))

    def test_two_ranks(self):
        self.check(40, 2 * LIMIT, launch=(BUILD / "bin" / "accelerate", "launch", "--cpu", "--num_processes", 2))


if __name__ == "__main__":
    try:
        with confined.groups(lambda: confined.Memory(LIMIT)):
            pass
    except confined.Unavailable as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(verbosity=2)
