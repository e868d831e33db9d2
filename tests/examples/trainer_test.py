"""examples/trainer as a user runs it, on a small BERT that Transformers makes: what it learns and leaves, that a run which was killed or
asked to end goes on as if it had not been, what it pushes, what its report shows, and what it says to bad input.

usage: trainer_test.py BUILD [unittest arguments]; BUILD is the build folder. Needs torch, transformers and tokenizers.
A run is cut at a random moment too, with ACCELERATE_TEST_EXTENDED=1 twenty; ACCELERATE_RANDOM_SEED plays them again.
"""
import importlib.util
import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import small_models

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRAINER, ACCELERATE = BUILD / "examples" / "trainer", BUILD / "bin" / "accelerate"
FSDP = ROOT / "examples" / "fsdp" / "fsdp.yaml"
# In 16 bits two runs must compute alike wherever they run.
ENVIRONMENT = {"HF_HUB_CACHE": "/nonexistent", "HF_HUB_OFFLINE": "1", "ACCELERATE_CPU_HALF": "native"}
LAUNCHES = {"one process": [], "two processes": [ACCELERATE, "launch", "--num_processes", "2"],
            "FULL_SHARD": [ACCELERATE, "launch", "--config_file", FSDP]}
LIMIT = 180


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("torch", "transformers", "tokenizers"):
            if importlib.util.find_spec(name) is None:
                raise unittest.SkipTest(f"{sys.executable} has no {name}; scripts/setup makes a .venv with it")
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.bert, _, cls.data = small_models.make(cls.folder)

    def words(self, launch, out, *more):
        return [str(word) for word in [*LAUNCHES[launch], TRAINER, "--model", self.bert, "--data", self.data, "--output_dir", out,
                                       "--learning_rate", "0.003", *more]]

    def run_words(self, words, **environment):
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, **ENVIRONMENT, **environment})

    def done(self, words, **environment):
        result = self.run_words(words, **environment)
        self.assertEqual(result.returncode, 0, result.stderr[-3000:] + result.stdout[-1000:])
        return result

    def steps(self, folder):
        return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))


class FoundingProgram(Examples):
    def test_trains_evaluates_and_keeps_the_best(self):
        import transformers
        out = self.folder / "founding"
        result = self.done(self.words("FULL_SHARD", out, "--num_train_epochs", "4", "--logging_steps", "3", "--save_total_limit", "1"))
        self.assertIn("training BertForSequenceClassification", result.stdout)
        state = transformers.TrainerState.load_from_json(out / f"checkpoint-{self.steps(out)[-1]}" / "trainer_state.json")
        best = min((log for log in state.log_history if "eval_loss" in log), key=lambda log: log["eval_loss"])
        self.assertGreater(best["eval_accuracy"], 0.6)
        for folder in (out, out / f"checkpoint-{best['step']}"):  # Whole, although the optimizer is in shards.
            model, info = transformers.AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
            self.assertFalse(any(info.values()), info)
            self.assertEqual(list(model.config.id2label.values()), small_models.TOPICS)
            transformers.AutoTokenizer.from_pretrained(folder)
        self.assertTrue(list(out.glob("checkpoint-*/shard-*-optimizer-*")))
        weights = (out / "model.safetensors").read_bytes(), (out / f"checkpoint-{best['step']}" / "model.safetensors").read_bytes()
        self.assertEqual(weights[0], weights[1], "the model at the end is the best one")
        page = out / "report.html"
        self.done([str(ACCELERATE), "report", str(out)])
        self.assertIn("eval_accuracy", page.read_text(encoding="utf-8"))

    def test_is_pushed(self):
        home = self.folder / "hub"
        server = subprocess.Popen([sys.executable, ROOT / "tests" / "transformers" / "hub" / "server" / "hub_server.py", "--until-eof", "--root", home / "root",
                                   "--token", "hf_writer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            out = self.folder / "pushed-model"
            settings = {"HF_ENDPOINT": server.stdout.readline().strip(), "HF_TOKEN": "hf_writer", "HF_HUB_OFFLINE": "0", "HF_HOME": str(home / "home")}
            self.done(self.words("two processes", out, "--push_to_hub", "--hub_strategy", "all_checkpoints", "--num_train_epochs", "2"), **settings)
        finally:
            server.stdin.close()
            server.wait(10)
            server.stdout.close()
        repositories = list((home / "root" / "models").glob("*/pushed-model"))
        self.assertEqual(len(repositories), 1)
        pushed = repositories[0]
        import transformers
        transformers.AutoModelForSequenceClassification.from_pretrained(pushed)
        transformers.AutoTokenizer.from_pretrained(pushed)
        self.assertEqual((pushed / "model.safetensors").read_bytes(), (out / "model.safetensors").read_bytes())
        card = (pushed / "README.md").read_text(encoding="utf-8")
        for words in ("generated_from_trainer", "# pushed-model", "learning_rate: 0.003", "| Accuracy"):
            self.assertIn(words, card)
        self.assertTrue(list(pushed.glob("checkpoint-*/trainer_state.json")))
        self.assertEqual(list(out.glob(".push-*")), [], "what was sent is cleared away")


    def test_a_hub_that_fails_at_the_end_costs_nothing(self):
        home = self.folder / "failing hub"
        server = subprocess.Popen([sys.executable, ROOT / "tests" / "transformers" / "hub" / "server" / "hub_server.py", "--until-eof", "--root", home / "root",
                                   "--token", "hf_writer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            url, out = server.stdout.readline().strip(), self.folder / "not pushed"
            settings = {"HF_ENDPOINT": url, "HF_TOKEN": "hf_writer", "HF_HUB_OFFLINE": "0", "HF_HOME": str(home / "home")}
            fault = {"match": "POST .*/commit/", "times": 99, "action": {"status": 403, "body": json.dumps({"error": "no space is left"})}}
            urllib.request.urlopen(urllib.request.Request(f"{url}/_fault", json.dumps(fault).encode(), method="POST")).close()
            result = self.done(self.words("two processes", out, "--push_to_hub", "--hub_strategy", "end", "--hub_model_id", "later",
                                          "--num_train_epochs", "1"), **settings)
            self.assertIn("the training is complete, and its model was not pushed to", result.stderr)
            self.assertIn("no space is left", result.stderr)
            self.assertIn("eval_accuracy", (out / "eval_results.json").read_text(encoding="utf-8"), "the program went on")
            urllib.request.urlopen(urllib.request.Request(f"{url}/_fault", method="DELETE")).close()
            command = re.search("`accelerate (hub upload .*?)`", result.stderr).group(1)
            self.done([str(ACCELERATE), *shlex.split(command)], **settings)
        finally:
            server.stdin.close()
            server.wait(10)
            server.stdout.close()
        pushed = next((home / "root" / "models").glob("*/later"))
        self.assertEqual((pushed / "model.safetensors").read_bytes(), (out / "model.safetensors").read_bytes())
        self.assertIn("generated_from_trainer", (pushed / "README.md").read_text(encoding="utf-8"))
        self.assertTrue((pushed / "tokenizer.json").exists())


class Interrupted(Examples):
    MORE = ["--max_steps", "16", "--logging_steps", "1", "--eval_strategy", "no", "--load_best_model_at_end", "false", "--save_strategy", "steps",
            "--save_steps", "3", "--gradient_accumulation_steps", "2"]

    def whole(self, launch):
        out = self.folder / f"whole {launch}"
        if not out.exists():
            self.done(self.words(launch, out, *self.MORE))
        return (out / "model.safetensors").read_bytes()

    def cut(self, launch, out, number, when):
        """Runs until `when(process)` returns, sends the signal, and returns what was said."""
        process = subprocess.Popen(self.words(launch, out, *self.MORE), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env={**os.environ, **ENVIRONMENT})
        try:
            when(process)
        finally:
            if number == signal.SIGTERM:
                process.send_signal(number)
            else:  # A terminal's Ctrl-C goes to all that run in it.
                os.killpg(process.pid, number)
            said = process.communicate(timeout=LIMIT)[1]
        return process.returncode, said

    def until_checkpoint(self, out, step):
        def when(process):
            deadline = time.monotonic() + LIMIT
            while not (out / f"checkpoint-{step}" / "manifest.json").exists() and process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
        return when

    def goes_on(self, launch, out):
        resumes = ["--resume_from_checkpoint", "true"] if self.steps(out) else []
        self.done(self.words(launch, out, *self.MORE, *resumes))
        self.assertEqual((out / "model.safetensors").read_bytes(), self.whole(launch), f"{launch}, after checkpoints {self.steps(out)}")

    def test_a_killed_run_goes_on_bit_for_bit(self):
        for launch in LAUNCHES:
            with self.subTest(launch=launch):
                out = self.folder / f"killed {launch}"
                self.cut(launch, out, signal.SIGKILL, self.until_checkpoint(out, 6))
                self.goes_on(launch, out)

    def test_a_run_that_is_asked_to_end_saves_and_goes_on_bit_for_bit(self):
        for launch in LAUNCHES:
            with self.subTest(launch=launch):
                out = self.folder / f"ended {launch}"
                code, said = self.cut(launch, out, signal.SIGTERM, self.until_checkpoint(out, 3))
                self.assertNotEqual(code, 0)
                if launch == "one process":
                    self.assertEqual(code, 128 + signal.SIGTERM)
                self.assertEqual(said.count("SIGTERM stopped the training"), 1, said)
                self.assertRegex(said, r"SIGTERM stopped the training at step \d+ of 16; .*checkpoint-\d+ is saved. Resume with")
                self.goes_on(launch, out)

    def test_ctrl_c_ends_with_one_sentence_and_its_code(self):
        for launch in ("one process", "two processes"):
            with self.subTest(launch=launch):
                out = self.folder / f"ctrl c {launch}"
                code, said = self.cut(launch, out, signal.SIGINT, self.until_checkpoint(out, 3))
                self.assertEqual(code, 128 + signal.SIGINT, said)
                self.assertEqual(said.count("SIGINT stopped the training at step"), 1, said)
                for words in ("terminate called", "Exception raised from", "exit code", "CommError"):
                    self.assertNotIn(words, said)

    def test_at_random_moments(self):
        seed = int(os.environ.get("ACCELERATE_RANDOM_SEED", random.randrange(1 << 30)))
        draw = random.Random(seed)
        for turn in range(20 if os.environ.get("ACCELERATE_TEST_EXTENDED") else 1):
            launch = draw.choice(list(LAUNCHES))
            with self.subTest(seed=seed, turn=turn, launch=launch):
                out = self.folder / f"random {turn}"
                for _ in range(draw.randrange(1, 3)):
                    self.cut(launch, out, draw.choice([signal.SIGKILL, signal.SIGTERM]), lambda process: time.sleep(draw.uniform(0.3, 3)))
                    if self.steps(out):
                        break
                self.goes_on(launch, out)


class BadInput(Examples):
    def refused(self, pattern, *more):
        result = self.run_words(self.words("one process", self.folder / "refused", *more))
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, pattern)
        self.assertNotIn("loss", result.stdout)

    def test_names_what_is_wrong(self):
        self.refused(r"learning_rte.*Did you mean", "--learning_rte", "1")
        self.refused(r"save_strategy", "--save_strategy", "steps", "--save_steps", "7")
        self.refused(r"acuracy.*Did you mean 'eval_accuracy'", "--metric_for_best_model", "acuracy")
        self.refused(r"deepspeed", "--deepspeed", "zero3.json")
        self.refused(r"accelerate hub login", "--push_to_hub")
        self.refused(r"allowed is one of adamw_torch", "--optim", "adamw_8bit")
        self.refused(r"nowhere, which is not there", "--resume_from_checkpoint", self.folder / "nowhere")

    def test_help_has_every_argument_in_groups(self):
        said = self.done([str(TRAINER), "--help"]).stdout
        for word in ("--learning_rate", "--fsdp_config", "--model", "--hub_strategy"):
            self.assertIn(word, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
