"""The TorchScript BERT of examples/fsdp as a user runs it: alone with LibTorch, accelerated on one rank and on several.
Every step's loss is compared with PyTorch's (tests/reference/bert_tiny.py wrote model and losses).

usage: fsdp_test.py BUILD [unittest arguments]; BUILD is the build folder.
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "tests" / "reference" / "bert_tiny.pt"
GOLDEN = json.loads((ROOT / "tests" / "reference" / "bert_tiny.json").read_text())
ACCELERATED = BUILD / "examples" / "fsdp_accelerated"


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)


def launched(*flags):
    return run(BUILD / "bin" / "accelerate", "launch", *flags, ACCELERATED, MODEL)


class Bert(unittest.TestCase):
    def check(self, result, golden, tolerance):
        self.assertEqual(result.returncode, 0, result.stderr)
        steps = re.findall(r"^step (\d+): loss (\d\.\d{9})$", result.stdout, re.MULTILINE)
        self.assertEqual([int(step) for step, _ in steps], list(range(1, 21)), result.stdout)
        for (step, loss), expected in zip(steps, golden):
            self.assertAlmostEqual(float(loss), expected, delta=tolerance, msg=f"step {step}")

    def test_alone(self):
        self.check(run(BUILD / "examples" / "fsdp_plain", MODEL), GOLDEN["fp32"], 1e-6)
        self.check(run(ACCELERATED, MODEL), GOLDEN["fp32"], 1e-6)

    def test_replicated(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.check(launched("--cpu", "--num_processes", ranks), GOLDEN["fp32"], 1e-6)

    def test_without_a_model(self):
        self.assertEqual(run(ACCELERATED).returncode, 2)
        missing = run(ACCELERATED, "missing.pt")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("missing.pt", missing.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
