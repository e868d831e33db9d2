"""examples/nlp, examples/cookbook/causal_lm.cpp and examples/text_generation as a user runs them, on small models that Transformers makes: what they
learn, that a killed run goes on as if it had not been, what Python finds in their folders, and what they say to bad input.

usage: models_test.py BUILD [unittest arguments]; BUILD is the build folder. Needs torch, transformers and tokenizers.
"""
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import small_models
from small_models import TOPICS

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
EXAMPLES = BUILD / "examples"
LAUNCH = [BUILD / "bin" / "accelerate", "launch", "--num_processes", "2"]
LIMIT = 120


def command(*words):
    return [str(word) for word in words]


def run(*words, environment=None):
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, "HF_HUB_CACHE": "/nonexistent", "HF_HUB_OFFLINE": "1", **(environment or {})})


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("torch", "transformers", "tokenizers"):
            if importlib.util.find_spec(name) is None:
                raise unittest.SkipTest(f"{sys.executable} has no {name}; scripts/setup makes a .venv with it")
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.bert, cls.llama, cls.data = small_models.make(cls.folder)

    def done(self, *words):
        result = run(*words)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:])
        return result

    def nlp(self, program, output, *more):
        return ["--model", self.bert, "--data", self.data, "--learning_rate", "0.003", "--output", output, *more]

    def epochs(self, text):
        return [(float(loss), float(share)) for loss, share in re.findall(r"^epoch \d+: loss (\S+), accuracy (\S+)$", text, re.MULTILINE)]

    def weights(self, folder):
        from safetensors.torch import load_file
        return load_file(folder / "model.safetensors")

    def same(self, one, other, tolerance):
        self.assertEqual(one.keys(), other.keys())
        return max((one[name] - other[name]).abs().max().item() for name in one) <= tolerance


class Nlp(Examples):
    def test_one_process_learns_what_the_loop_by_hand_learns(self):
        out = self.folder / "plain", self.folder / "accelerated"
        plain = self.epochs(self.done(EXAMPLES / "nlp_plain", *self.nlp("plain", out[0])).stdout)
        accelerated = self.epochs(self.done(EXAMPLES / "nlp_accelerated", *self.nlp("accelerated", out[1])).stdout)
        self.assertEqual(len(plain), 2)
        self.assertGreater(plain[1][1], 0.6)
        self.assertEqual(plain, accelerated)
        self.assertTrue(self.same(self.weights(out[0]), self.weights(out[1]), 1e-5))

    def test_two_processes_learn_and_python_opens_what_they_leave(self):
        import transformers
        out = self.folder / "two"
        result = self.done(*LAUNCH, EXAMPLES / "nlp_accelerated", *self.nlp("accelerated", out, "--epochs", "4"))
        epochs = self.epochs(result.stdout)
        self.assertEqual(len(epochs), 4, result.stdout)
        self.assertGreater(epochs[-1][1], 0.6)
        self.assertIn("epoch 4", result.stderr)  # The progress bar.
        model, info = transformers.AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
        self.assertFalse(any(info.values()), info)
        self.assertEqual(list(model.config.id2label.values()), TOPICS)
        self.assertEqual(sorted(path.name for path in (out / "checkpoints").iterdir()), ["checkpoint_2", "checkpoint_3"])
        self.assertTrue(self.same(self.weights(out / "best"), self.weights(out), 1.0))

    def test_a_killed_run_goes_on_as_if_it_had_not_been(self):
        whole, cut = self.folder / "whole", self.folder / "cut"
        words = [*LAUNCH, EXAMPLES / "nlp_accelerated"]
        expected = self.epochs(self.done(*words, *self.nlp("accelerated", whole, "--epochs", "6")).stdout)
        process = subprocess.Popen(command(*words, *self.nlp("accelerated", cut, "--epochs", "6")), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            deadline = time.monotonic() + LIMIT
            while not (cut / "checkpoints" / "checkpoint_1" / "manifest.json").exists() and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        found = self.epochs(self.done(*words, *self.nlp("accelerated", cut, "--epochs", "6", "--resume", "newest")).stdout)
        self.assertLess(len(found), 6)
        self.assertEqual(found, expected[6 - len(found):])
        self.assertTrue(self.same(self.weights(whole), self.weights(cut), 0.0))


class CausalLM(Examples):
    def test_writes_trains_and_writes(self):
        import transformers
        text = self.folder / "text"
        text.write_text("w1 w2 w3 w4 w5 " * 200)
        out = self.folder / "causal"
        result = self.done(*LAUNCH, EXAMPLES / "causal_lm", "--model", self.llama, "--text", text, "--output", out, "--prompt", "w1 w2", "--block_size", "20",
                           "--batch_size", "4", "--epochs", "6", "--learning_rate", "0.01", "--new_tokens", "6", "--temperature", "0.001")
        lines = [line for line in result.stdout.splitlines() if line]
        self.assertEqual([line.split(" loss")[0] for line in lines[:-1]], ["epoch 1", "epoch 6"], result.stdout)
        self.assertEqual(lines[-1], "w1 w2 w3 w4 w5 w1 w2 w3")
        model, info = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
        self.assertFalse(any(info.values()), info)
        words = transformers.AutoTokenizer.from_pretrained(out)
        ids = model.generate(**words("w1 w2", return_tensors="pt"), max_new_tokens=6, do_sample=False)
        self.assertEqual(words.decode(ids[0], skip_special_tokens=True), lines[-1])


class TextGeneration(Examples):
    def test_prints_what_python_generates(self):
        import transformers
        model = transformers.AutoModelForCausalLM.from_pretrained(self.llama)
        words = transformers.AutoTokenizer.from_pretrained(self.llama)
        for beams in (1, 3):
            said = self.done(EXAMPLES / "text_generation", "--model", self.llama, "--prompt", "w7 w8 w9", "--max_new_tokens", "12", "--num_beams", beams)
            ids = model.generate(**words("w7 w8 w9", return_tensors="pt"), max_new_tokens=12, num_beams=beams, do_sample=False)
            self.assertEqual(said.stdout.replace(" ", ""), words.decode(ids[0], skip_special_tokens=True).replace(" ", "") + "\n")


class BadInput(Examples):
    def refused(self, program, pattern, *words):
        result = run(EXAMPLES / program, *words)
        self.assertEqual(result.returncode, 1, result.stdout)
        last = result.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith(program + ": "), result.stderr)
        self.assertRegex(last, pattern)

    def test_names_what_is_wrong(self):
        for program in ("nlp_plain", "nlp_accelerated", "text_generation"):
            self.refused(program, r"--model is missing: .*fetch_models.py")
            self.refused(program, r"'--modell' is not a flag\. Allowed: --model NAME_OR_DIR", "--modell", self.bert)
            self.refused(program, r"no/such", "--model", "no/such")
        self.refused("nlp_plain", r"songs-poems|art cannot be opened: apt-get install fortunes", "--model", self.bert, "--data", self.folder)
        self.refused("nlp_plain", r"--resume", "--model", self.bert, "--resume", "newest")
        self.refused("nlp_plain", r"'--learning_rate fast': a number from 0 up", "--model", self.bert, "--learning_rate", "fast")
        self.refused("nlp_accelerated", r"nowhere", "--model", self.bert, "--data", self.data, "--resume", self.folder / "nowhere")
        self.refused("causal_lm", r"none", "--model", self.llama, "--text", self.folder / "none")
        self.refused("causal_lm", r"model_type is 'bert'", "--model", self.bert, "--text", self.data / "art", "--block_size", "4")
        self.refused("causal_lm", r"--block_size: 2 is the least", "--model", self.llama, "--block_size", "0")
        self.refused("causal_lm", r"takes 100000; set --block_size", "--model", self.llama, "--text", self.data / "art", "--block_size", "100000")
        self.refused("text_generation", r"model_type is 'bert'", "--model", self.bert)
        self.refused("text_generation", r"temperature", "--model", self.llama, "--do_sample", "1", "--temperature", "0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
