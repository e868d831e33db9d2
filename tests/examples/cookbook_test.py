"""The programs of docs/cookbook.md as a user runs them: the commands of the page print what the page says, and the
programs learn. The classifier of images takes a minute, and is run by cv_test.py alone.

usage: cookbook_test.py BUILD [unittest arguments]; BUILD is the build folder.
"""
import contextlib
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
# Which sentence a sampled text has next depends on rounding too. Every noun has its own place in song.txt.
PLACES = {"bell": "town", "cat": "wall", "king": "road", "ship": "sea", "star": "hill"}
NOUN = re.compile(r"\b(?:" + "|".join([*PLACES, *PLACES.values()]) + r")\b")
SAMPLED = "Fine-tune a language model and let it write"
LONG = ("Classify images",)
HUB_OF_THE_PAGE = "http://127.0.0.1:36943"
BLOCKS = re.compile(r"```sh\n(?P<commands>.*?)```\n+```text\n(?P<output>.*?)```", re.DOTALL)


def run(folder, *words, **environment):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False,
                          cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1", "ACCELERATE_CPU_HALF": "native", **environment})


@contextlib.contextmanager
def hub(folder):
    """The address of a hub that keeps its repositories in `folder`."""
    server = ROOT / "tests" / "transformers" / "hub" / "server" / "hub_server.py"
    process = subprocess.Popen([sys.executable, server, "--root", folder / "hub", "--token", "hf_test"], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def recipes():
    """For each heading of the page that has commands with an output: the commands and the output."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        if found := BLOCKS.search(section):
            yield section.splitlines()[0], found["commands"].splitlines(), found["output"]


def alike(printed, promised, heading):
    """Whether the texts differ in decimals alone, and little. A sampled text may have other sentences of the song."""
    if heading == SAMPLED:
        printed, promised = NOUN.sub("noun", printed), NOUN.sub("noun", promised)
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
            seen = []
            address = self.enterContext(hub(folder))
            for heading, commands, output in recipes():
                seen.append(heading)
                with self.subTest(recipe=heading):
                    printed = ""
                    for command in commands if heading not in LONG else []:
                        online = {"HF_HUB_OFFLINE": "0", "HF_HOME": str(folder / "home")} if HUB_OF_THE_PAGE in command else {}
                        result = run(folder, "bash", "-c", command.replace(HUB_OF_THE_PAGE, address), **online)
                        self.assertEqual(result.returncode, 0, f"{command}: {result.stderr[-3000:]}")
                        printed += result.stdout
                    # What the Trainer tells, such as its plan and its tables, comes before: the page leaves it out.
                    tail = "\n".join(printed.splitlines()[-len(output.splitlines()):]) + "\n"
                    if heading not in LONG:
                        self.assertTrue(alike(tail, output, heading), f"the page says\n{output}and the program\n{printed}")
            self.assertEqual(len(seen), 12, seen)

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

    def test_samples_sentences_of_the_song(self):
        said = self.said("causal_lm", ranks=2).splitlines()
        sentences = re.findall(r"the (\w+) went over the (\w+)", said[-1])
        self.assertGreaterEqual(len(sentences), 2, said)
        for noun, place in sentences:
            self.assertEqual(PLACES[noun], place, said)
        self.assertGreater(self.number(said[0], r"loss (\S+)$"), 1.5)
        self.assertLess(self.number(said[1], r"loss (\S+)$"), 0.5)
        # Each prompt gets its own place, on one process and on three of which one has one prompt.
        alone, several = (self.said("distributed_inference", ranks=ranks).splitlines() for ranks in (1, 3))
        self.assertEqual(alone[:-1], several[:-1])
        self.assertEqual([alone[-1], several[-1]], ["5 prompts on 1 processes", "5 prompts on 3 processes"])
        for prompt, text in zip((ROOT / "examples/cookbook/data/prompts.txt").read_text().splitlines(), alone):
            self.assertTrue(text.startswith(prompt) and text.split()[5] == PLACES[prompt.split()[1]], text)

    def test_a_hub_refuses_a_token_that_may_not_write(self):
        address = self.enterContext(hub(self.folder))
        result = run(self.folder, BUILD / "examples" / "private_hub", "--repo", "me/names", HF_ENDPOINT=address, HF_TOKEN="hf_other",
                     HF_HUB_OFFLINE="0", HF_HOME=str(self.folder / "home"))
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("401", result.stderr)

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
