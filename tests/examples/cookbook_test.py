"""The programs of docs/cookbook.md as a user runs them: the commands of the page print what the page says, and the
programs learn. Those that the page takes from other folders are run by the tests of their own.

usage: cookbook_test.py BUILD [unittest arguments]; BUILD is the build folder.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "cookbook.md"
COOKBOOK = ROOT / "examples" / "cookbook"
LIMIT = 120
# Processors round differently, so a training ends a little elsewhere. Whole numbers and words are the same everywhere.
ROUNDING = 0.1
NUMBER = re.compile(r"\b[01](?:\.\d+)?$|\d+\.\d+", re.MULTILINE)
BLOCKS = re.compile(r"```sh\n(?P<commands>.*?)```\n+```text\n(?P<output>.*?)```", re.DOTALL)


def run(folder, *words, **environment):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False,
                          cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1", "ACCELERATE_CPU_HALF": "native", **environment})


def recipes():
    """For each heading of the page that has commands with an output: the commands and the output."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        if found := BLOCKS.search(section):
            yield section.splitlines()[0], found["commands"].splitlines(), found["output"]


def alike(printed, promised):
    """Whether the texts differ in decimals alone, and little."""
    if NUMBER.sub("#", printed) != NUMBER.sub("#", promised):
        return False
    return all(abs(float(a) - float(b)) <= ROUNDING for a, b in zip(NUMBER.findall(printed), NUMBER.findall(promised)))


class Page(unittest.TestCase):
    def test_commands_print_what_it_says(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)  # Looks like the repository, so that the page's paths are right.
            (folder / "examples").symlink_to(ROOT / "examples")
            (folder / "build").mkdir()
            (folder / "build" / "dev").symlink_to(BUILD)
            seen = 0
            for heading, commands, output in recipes():
                with self.subTest(recipe=heading):
                    seen += 1
                    printed = ""
                    for command in commands:
                        result = run(folder, "bash", "-c", command)
                        self.assertEqual(result.returncode, 0, f"{command}: {result.stderr[-3000:]}")
                        printed += result.stdout
                    # What the Trainer tells, such as its plan and its tables, comes before: the page leaves it out.
                    tail = "\n".join(printed.splitlines()[-len(output.splitlines()):]) + "\n"
                    self.assertTrue(alike(tail, output), f"the page says\n{output}and the program\n{printed}")
            self.assertGreaterEqual(seen, 4)

    def test_names_every_program(self):
        text = PAGE.read_text(encoding="utf-8")
        for program in COOKBOOK.glob("*.cpp"):
            self.assertIn(f"(../examples/cookbook/{program.name})", text)


class Learning(unittest.TestCase):
    """Thresholds that a program which trains nothing misses."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "examples").symlink_to(ROOT / "examples")

    def said(self, program, *words, ranks=1):
        launch = [BUILD / "bin" / "accelerate", "launch", "--num_processes", ranks] if ranks > 1 else []
        result = run(self.folder, *launch, BUILD / "examples" / program, *words)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        return result.stdout

    def number(self, text, pattern):
        found = re.search(pattern, text, re.MULTILINE)
        self.assertIsNotNone(found, text)
        return float(found.group(1))

    def test_classifies(self):
        said = self.said("classify_csv", ranks=2)
        self.assertGreaterEqual(self.number(said, r"^accuracy (\S+),"), 0.8)  # A third by chance.
        self.assertGreaterEqual(self.number(said, r"F1 (\S+)$"), 0.8)

    def test_tags(self):
        said = self.said("tag_tokens", ranks=2)
        for name in ("PER", "LOC", "overall"):
            self.assertGreaterEqual(self.number(said, rf"^{name}: F1 (\S+)$"), 0.9)
        untrained = self.said("tag_tokens", "--num_train_epochs", "1", "--learning_rate", "0")
        self.assertLess(self.number(untrained, r"^overall: F1 (\S+)$"), 0.3)

    def test_generates_points_of_the_ring(self):
        said = self.said("gan", ranks=2)
        self.assertGreaterEqual(self.number(said, r"^epoch 40 near the ring (\S+)"), 0.7)
        self.assertLess(self.number(said, r"^epoch 1 near the ring (\S+)"), 0.6)
        self.assertGreaterEqual(self.number(said, r"^epoch 40 .*: (\d+)$"), 13)

    def test_reads_sequences_to_their_end(self):
        said = self.said("own_collate", ranks=2)
        self.assertIn("301 sequences", said, "each sequence once, whatever the number of ranks")
        self.assertGreaterEqual(self.number(said, r"accuracy (\S+)$"), 0.9)

    def test_a_killed_training_ends_as_one_that_was_not(self):
        whole = self.said("resume", self.folder / "whole", ranks=2)
        cut = self.folder / "cut"
        process = subprocess.Popen([str(word) for word in (BUILD / "bin" / "accelerate", "launch", "--num_processes", 2, BUILD / "examples" / "resume", cut)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            deadline = time.monotonic() + LIMIT
            while not (cut / "checkpoints" / "checkpoint_2" / "manifest.json").exists() and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.assertFalse((cut / "model").exists(), "killed before its end")
        said = self.said("resume", cut, ranks=2)
        self.assertGreaterEqual(self.number(said, r"^goes on after step (\d+)$"), 150)
        self.assertEqual(said.splitlines()[-1], whole.splitlines()[-1])
        self.assertGreaterEqual(self.number(whole, r"accuracy (\S+)$"), 0.95)
        self.assertEqual(*((folder / "model" / "model.safetensors").read_bytes() for folder in (cut, self.folder / "whole")))

    def test_flags_change_the_training(self):
        (self.folder / "slow.yaml").write_text("learning_rate: 0.0\nname: slow\n")
        self.assertLess(self.number(self.said("hyper_parameters", "slow.yaml"), r"accuracy (\S+)$"), 0.75)
        self.assertGreaterEqual(self.number(self.said("hyper_parameters", "slow.yaml", "--learning_rate", "0.01"), r"accuracy (\S+)$"), 0.95)
        result = run(self.folder, BUILD / "examples" / "hyper_parameters", "--optimizer", "lamb")
        self.assertEqual(result.returncode, 1)
        self.assertIn("allowed are adam and sgd", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
