"""The TorchScript BERT of examples/fsdp as a user runs it: alone with LibTorch, accelerated on one rank and on several,
replicated, and sharded by examples/fsdp/fsdp.yaml in the ways that its keys have. Every step's loss is compared with PyTorch's (tests/reference/bert_tiny.py wrote model and losses).

usage: fsdp_test.py BUILD [unittest arguments]; BUILD is the build folder.
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
MODEL = ROOT / "tests" / "reference" / "bert_tiny.pt"
PYTHON = ROOT / ".venv" / "bin" / "python"
GOLDEN = json.loads((ROOT / "tests" / "reference" / "bert_tiny.json").read_text())
ACCELERATED = BUILD / "examples" / "fsdp_accelerated"
CONFIGURATION = ROOT / "examples" / "fsdp" / "fsdp.yaml"
FLOAT = [5e-7] * 20  # ranks add up in another order than one process
# The last bit of a master weight can flip the last bit in bf16, which is 2**16 times as large.
BF16 = [1e-7] * 2 + [5e-4] * 18
# ranks, flags beside the configuration file, variables
SHARDED = [
    (2, [], {}),
    (4, [], {}),
    (2, [], {"ACCELERATE_FSDP_FULL_PARAMETERS": "gathered"}),
    (2, [], {"ACCELERATE_FSDP_FULL_PARAMETERS": "shared_pages"}),
    (2, [], {"ACCELERATE_COMM": "gloo"}),
    (2, ["--fsdp_sharding_strategy", "SHARD_GRAD_OP"], {}),
    (2, ["--fsdp_sharding_strategy", "NO_SHARD"], {}),
    (4, ["--fsdp_sharding_strategy", "HYBRID_SHARD"], {"ACCELERATE_FSDP_SHARD_GROUP_SIZE": "2"}),
    (4, ["--fsdp_sharding_strategy", "HYBRID_SHARD_ZERO2"], {"ACCELERATE_FSDP_SHARD_GROUP_SIZE": "2"}),
    (2, ["--fsdp_version", "2"], {}),
    (2, ["--fsdp_version", "2", "--fsdp_reshard_after_forward", "false"], {}),
    (2, ["--fsdp_auto_wrap_policy", "SIZE_BASED_WRAP", "--fsdp_min_num_params", "2000"], {}),
    (2, ["--fsdp_auto_wrap_policy", "NO_WRAP"], {}),
    (2, ["--fsdp_transformer_layer_cls_to_wrap", "BertLayer,BertEmbeddings,BertAttention"], {}),
    (2, ["--fsdp_backward_prefetch", "NO_PREFETCH"], {}),
    (2, ["--fsdp_backward_prefetch", "BACKWARD_POST", "--fsdp_forward_prefetch", "true"], {}),
    (2, ["--fsdp_offload_params", "true"], {}),
    (2, ["--fsdp_cpu_ram_efficient_loading", "false", "--fsdp_sync_module_states", "false"], {}),
]


def run(*command, **variables):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, "ACCELERATE_CPU_HALF": "native", **variables})


def launched(*flags, out=(), **variables):
    return run(BUILD / "bin" / "accelerate", "launch", *flags, ACCELERATED, MODEL, *out, **variables)


def sharded(ranks, precision, flags=(), variables=None, **more):
    return launched("--config_file", CONFIGURATION, "--num_processes", ranks, "--mixed_precision", precision, *flags,
                    **(variables or {}), **more)


class Bert(unittest.TestCase):
    def check(self, result, golden, tolerances):
        self.assertEqual(result.returncode, 0, result.stderr)
        steps = re.findall(r"^step (\d+): loss (\d\.\d{9})$", result.stdout, re.MULTILINE)
        self.assertEqual([int(step) for step, _ in steps], list(range(1, 21)), result.stdout)
        for (step, loss), expected, tolerance in zip(steps, golden, tolerances):
            self.assertAlmostEqual(float(loss), expected, delta=tolerance, msg=f"step {step}")

    def test_alone(self):
        self.check(run(BUILD / "examples" / "fsdp_plain", MODEL), GOLDEN["fp32"], FLOAT)
        self.check(run(ACCELERATED, MODEL), GOLDEN["fp32"], FLOAT)

    def test_replicated(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.check(launched("--cpu", "--num_processes", ranks), GOLDEN["fp32"], FLOAT)

    def test_sharded_by_the_file_as_it_is(self):
        self.check(launched("--config_file", CONFIGURATION), GOLDEN["bf16"]["2"], BF16)

    def test_sharded_in_every_way(self):
        for ranks, flags, variables in SHARDED:
            with self.subTest(ranks=ranks, flags=flags, **variables):
                self.check(sharded(ranks, "no", flags, variables), GOLDEN["fp32"], FLOAT)

    @unittest.skipUnless(PYTHON.exists(), "no .venv with Transformers (scripts/setup)")
    def test_transformers_reads_what_was_trained(self):
        ways = {"replicated": ("--cpu", "--num_processes", 2), "sharded": ("--config_file", CONFIGURATION),
                "on rank 0": ("--config_file", CONFIGURATION, "--fsdp_state_dict_type", "FULL_STATE_DICT")}
        for name, flags in ways.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                trained = launched(*flags, "--mixed_precision", "no", out=[folder])
                self.check(trained, GOLDEN["fp32"], FLOAT)
                score = run(PYTHON, ROOT / "tests" / "reference" / "bert_tiny.py", "--score", folder)
                self.assertEqual(score.returncode, 0, score.stderr)
                self.assertAlmostEqual(float(score.stdout), GOLDEN["trained"], delta=FLOAT[-1])

    def test_sharded_in_bf16(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.check(sharded(ranks, "bf16"), GOLDEN["bf16"][str(ranks)], BF16)

    def test_sharded_by_a_class_that_is_not_there(self):
        result = sharded(2, "no", ["--fsdp_transformer_layer_cls_to_wrap", "BertLayers"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("Could not find the transformer layer class BertLayers in the model.", result.stderr)
        self.assertIn("Did you mean 'BertLayer'?", result.stderr)

    def test_without_a_model(self):
        self.assertEqual(run(ACCELERATED).returncode, 2)
        missing = run(ACCELERATED, "missing.pt")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("missing.pt", missing.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
