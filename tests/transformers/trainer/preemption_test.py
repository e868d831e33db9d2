#!/usr/bin/env python3
"""Sends the signals of schedulers to launched trainings of two ranks, which go on and end as if nothing had stopped them.

usage: preemption_test.py ACCELERATE PREEMPTED_PROBE
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ACCELERATE = PROBE = ""
RANKS = 2


class Launch:
    """A training under the launcher; killed with its ranks at the end of the block."""

    def __init__(self, kind, folder, flags=(), marks=None):
        environment = dict(os.environ)
        self.marks = marks
        if marks:
            marks.mkdir()
            environment["PREEMPTED_MARKS"] = str(marks)
        self.said = open(folder.parent / f"{folder.name}.said", "a+", encoding="utf-8")
        self.process = subprocess.Popen(
            [ACCELERATE, "launch", "--cpu", "--num_processes", str(RANKS), *flags, PROBE, kind, str(folder)],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.said.close()

    def ranks(self):
        """Returns the ranks' process ids, once all have made some steps."""
        end = time.monotonic() + 120
        while sum(1 for _ in self.marks.iterdir()) < RANKS:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("the ranks made no steps: " + self.text())
            time.sleep(0.01)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children
                if pathlib.Path(f"/proc/{child}/cmdline").read_text().startswith(PROBE)]

    def wait(self):
        return self.process.wait(timeout=120)

    def text(self):
        self.said.seek(0)
        return self.said.read()


# What is sent, in the order in which it is sent, to whom, and the exit code that asks to go on.
STOPS = [
    ("SIGTERM to the launcher", [("launcher", signal.SIGTERM)], 143),
    ("SIGUSR1 to the launcher", [("launcher", signal.SIGUSR1)], 138),
    ("SIGTERM to one rank", [("rank", signal.SIGTERM)], 143),
    ("SIGUSR1 to one rank, as to a task", [("rank", signal.SIGUSR1)], 138),
    ("SIGUSR1, and SIGTERM behind it", [("launcher", signal.SIGUSR1), ("launcher", signal.SIGTERM)], 143),
    # As srun's Ctrl-C and `scancel`, which tell all processes of a step.
    ("SIGINT to all", [("ranks", signal.SIGINT), ("launcher", signal.SIGINT)], 130),
]


class Preemption(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.place.name)
        self.addCleanup(self.place.cleanup)

    def whole(self, kind):
        folder = self.folder / "whole"
        folder.mkdir()
        with Launch(kind, folder) as launch:
            self.assertEqual(launch.wait(), 0, launch.text())
        return (folder / "weights").read_bytes()

    def stop(self, kind, folder, stop, number):
        what, signals, code = stop
        with self.subTest(what), Launch(kind, folder, ["--max_restarts", "3"], self.folder / f"marks{number}") as launch:
            ranks = launch.ranks()
            self.assertEqual(len(ranks), RANKS)
            for target, one in signals:
                for pid in {"launcher": [launch.process.pid], "rank": ranks[-1:], "ranks": ranks}[target]:
                    os.kill(pid, one)
            self.assertEqual(launch.wait(), code, launch.text())
            self.assertNotIn("starting all ranks again", launch.text())
            self.assertNotIn("was killed by", launch.text())

    def goes_on(self, kind, stops):
        whole = self.whole(kind)
        folder = self.folder / "cut"
        folder.mkdir()
        for number, stop in enumerate(stops):
            self.stop(kind, folder, stop, number)
        self.assertFalse((folder / "weights").exists())
        with Launch(kind, folder) as launch:
            self.assertEqual(launch.wait(), 0, launch.text())
        self.assertEqual((folder / "weights").read_bytes(), whole)
        return folder

    def test_a_trainer_goes_on(self):
        folder = self.goes_on("trainer", STOPS)
        saved = [one for one in folder.iterdir() if one.name.startswith("checkpoint-")]
        self.assertGreaterEqual(len(saved), len(STOPS))
        for one in saved:  # Python's Trainer marks what it has not finished; here nothing is unfinished.
            self.assertTrue((one / "manifest.json").exists(), one)
            self.assertFalse((one / "checkpoint-is-incomplete.txt").exists(), one)

    def test_a_loop_goes_on(self):
        self.goes_on("loop", STOPS[:3])


if __name__ == "__main__":
    ACCELERATE, PROBE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
