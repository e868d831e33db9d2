"""The small examples as a user runs them: the plain program, and the accelerated one on one and two ranks. All print
what they are about and learn the two spirals.

usage: features_test.py BUILD [unittest arguments]; BUILD is the build folder.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINES = 100
# What each prints besides its accuracy, on one rank and on two. 512 samples: 32 batches of 16 make 8 steps an epoch
# on one rank and 4 on two.
EXPECTED = {
    "gradient_accumulation": {1: r"^480 optimizer steps$", 2: r"^240 optimizer steps$"},
    "automatic_batch_size": {1: r"^batch size 92 fits$", 2: r"^batch size 92 fits$"},
    "mixed_precision": {1: r"^computed in BFloat16$", 2: r"^computed in BFloat16$"},
    "multi_process_metrics": {1: r"^99 test samples$", 2: r"^99 test samples$"},
    "early_stopping": {1: r"^stopped after epoch \d{1,2}$", 2: r"^stopped after epoch \d{1,2}$"},
    "profiler": {1: r"^3 steps recorded$", 2: r"^3 steps recorded$"},
    "tracking": {1: r"^60 epochs logged$", 2: r"^60 epochs logged$"},
    "local_sgd": {1: r"^3840 steps$", 2: r"^1920 steps$"},
    "recompute": {1: r"^[08] blocks are computed again$", 2: r"^8 blocks are computed again$"},
    # 4482 gradients of two bytes each.
    "communication_hook": {1: r"^0 bytes of gradients sent in a step$",
                           2: r"^8964 bytes of gradients sent in a step$"},
    "cross_validation": {1: r"(^fold accuracy: [01]\.\d{3}\n){3}", 2: r"(^fold accuracy: [01]\.\d{3}\n){3}"},
}
WITHOUT_ACCURACY = {"profiler"}


def run(folder, *command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240, cwd=folder,
                          stdin=subprocess.DEVNULL, check=False, env={**os.environ, "ACCELERATE_CPU_HALF": "native"})


class Features(unittest.TestCase):
    def check(self, name, ranks, *command):
        with tempfile.TemporaryDirectory() as folder:
            result = run(folder, *command)
            self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}")
            self.assertRegex(result.stdout, re.compile(EXPECTED[name][ranks], re.MULTILINE))
            if name not in WITHOUT_ACCURACY:
                last = result.stdout.strip().splitlines()[-1]
                self.assertRegex(last, r"^test accuracy: [01]\.\d{3}$")
                self.assertEqual(result.stdout.count("test accuracy"), 1, "one rank alone reports")
                self.assertGreaterEqual(float(last.split()[-1]), 0.95)
            return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*"))
                    if path.is_file()}

    def test_plain(self):
        for name in EXPECTED:
            with self.subTest(example=name):
                self.check(name, 1, BUILD / "examples" / f"{name}_plain")

    def test_accelerated_on_one_rank(self):
        for name in EXPECTED:
            with self.subTest(example=name):
                self.check(name, 1, BUILD / "examples" / f"{name}_accelerated")

    def test_ranks_from_inside_a_program(self):
        result = run(ROOT, BUILD / "examples" / "notebook_launcher")
        self.assertEqual(result.returncode, 0, result.stderr)
        one, two = [line.split()[2:] for line in result.stdout.splitlines()]
        self.assertEqual(len(one), 1)
        self.assertEqual(len(set(two)), 1, "both ranks have the same model")
        self.assertEqual(len(two), 2)
        self.assertGreaterEqual(min(map(float, one + two)), 0.9)

    def test_accelerated_on_two_ranks(self):
        for name in EXPECTED:
            with self.subTest(example=name):
                files = self.check(name, 2, BUILD / "bin" / "accelerate", "launch", "--num_processes", "2",
                                   BUILD / "examples" / f"{name}_accelerated")
                if name == "profiler":
                    self.check_traces(files)
                elif name == "tracking":
                    self.check_tracked(files)
                else:
                    self.assertEqual(files, {})

    def test_states_on_disk(self):
        program = BUILD / "examples" / "bigger_than_memory"
        launch = (BUILD / "bin" / "accelerate", "launch", "--num_processes", "2")
        for megabytes, command in ((4.4, (program,)), (2.3, (*launch, program))):
            with tempfile.TemporaryDirectory() as folder:
                result = run(folder, *command)
                self.assertEqual(result.returncode, 0, result.stderr)
                found = re.fullmatch(r"on disk: ([\d.]+) MB\nin memory at most: ([\d.]+) MB of weights, ([\d.]+) MB of gradients\n"
                                     r"read and written in a step: [\d.]+ MB\ntest accuracy: ([\d.]+)\n", result.stdout)
                self.assertTrue(found, result.stdout)
                on_disk, *in_memory, accuracy = map(float, found.groups())
                self.assertAlmostEqual(on_disk, megabytes, delta=0.5)
                self.assertLess(max(in_memory), 1, "a few blocks of 0.13 MB")
                self.assertGreaterEqual(accuracy, 0.95)
                self.assertEqual(list(pathlib.Path(folder).rglob("accelerate-offload-*")), [])

    def check_traces(self, files):
        self.assertEqual(list(files), ["traces/profile_0.json", "traces/profile_1.json"])
        for rank, text in enumerate(files.values()):
            self.assertEqual(json.loads(text)["distributedInfo"]["rank"], rank)

    def check_tracked(self, files):
        rows = [json.loads(line) for line in files["runs/spirals/metrics.jsonl"].splitlines()]
        self.assertEqual([row["_step"] for row in rows], list(range(61)), "one rank alone logs")
        self.assertLess(rows[59]["loss"], rows[0]["loss"])
        self.assertGreaterEqual(rows[60]["accuracy"], 0.95)
        events = [name for name in files if "tfevents" in name]
        self.assertTrue(any(name.startswith("runs/spirals/events.out.tfevents.") for name in events), list(files))

    def test_every_example_is_here_and_short(self):
        others = ("common", "cv", "fsdp", "text", "nlp", "text_generation", "trainer", "notebook_launcher",
                  "bigger_than_memory", "cookbook", "kubernetes", "slurm")  # tests of their own
        folders = sorted(p.name for p in (ROOT / "examples").iterdir() if p.is_dir() and p.name not in others)
        self.assertEqual(folders, sorted(EXPECTED))
        for program in (ROOT / "examples").glob("*/*.cpp"):
            self.assertLessEqual(program.read_text(encoding="utf-8").count("\n"), LINES, program)


if __name__ == "__main__":
    unittest.main(verbosity=2)
