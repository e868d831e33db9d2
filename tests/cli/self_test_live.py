#!/usr/bin/env python3
"""`accelerate test` under each strategy, and under set-ups that cannot train; `accelerate env` and `accelerate init` as their users see them.

usage: self_test_live.py ACCELERATE
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ACCELERATE = os.path.abspath(sys.argv.pop(1))
CHECKS = ("start", "collectives", "data loaders", "training", "accumulation", "checkpoint", "restart")
FSDP = "distributed_type: FSDP\nuse_cpu: true\nnum_processes: 2\n"
SET_UPS = {
    "one process": "distributed_type: 'NO'\nuse_cpu: true\nnum_processes: 1\n",
    "replicas in bf16": "distributed_type: MULTI_CPU\nnum_processes: 2\nmixed_precision: bf16\n",
    "three replicas": "distributed_type: MULTI_CPU\nnum_processes: 3\n",
    "FSDP 1": FSDP + "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                     "  fsdp_transformer_layer_cls_to_wrap: NobodysLayer\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
    "FSDP 1 by size": FSDP + "fsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n  fsdp_min_num_params: 100\n",
    "FSDP 2": FSDP + "mixed_precision: fp16\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n  fsdp_offload_params: true\n",
    "ZeRO 2": "distributed_type: DEEPSPEED\nuse_cpu: true\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 2\n  gradient_accumulation_steps: 4\n",
    "ZeRO 3": "distributed_type: DEEPSPEED\nuse_cpu: true\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 3\n  offload_param_device: cpu\n",
}


class SelfTest(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def accelerate(self, *words, code=0, **variables):
        (self.folder / "tmp").mkdir(exist_ok=True)
        ran = subprocess.run([ACCELERATE, *map(str, words)], capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
                             env=os.environ | {"HF_HOME": str(self.folder), "TMPDIR": str(self.folder / "tmp"), "LC_ALL": "C.UTF-8"} | variables)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [], "something was left behind")
        return ran.stdout + ran.stderr

    def run_under(self, text, code=0, **variables):
        (self.folder / "set_up.yaml").write_text(text)
        return self.accelerate("test", "--config_file", self.folder / "set_up.yaml", code=code, **variables)

    def outcomes(self, shown):
        found = {}
        for check in CHECKS:
            row = re.search(rf"│ {check} +│ (ok|failed|not run) +│", shown)
            found[check] = row[1] if row else None
        return found

    def test_every_strategy_trains(self):
        for name, text in SET_UPS.items():
            with self.subTest(name):
                shown = self.run_under(text)
                self.assertEqual(self.outcomes(shown), dict.fromkeys(CHECKS, "ok"), shown)
                self.assertIn("Test is a success!", shown)
                self.assertNotIn("rank", shown)

    def test_the_default_file_is_tested(self):
        (self.folder / "accelerate").mkdir()
        (self.folder / "accelerate" / "default_config.yaml").write_text(SET_UPS["replicas in bf16"])
        self.assertIn("2 processes on CPUs, mixed precision bf16", self.accelerate("test"))

    def test_names_what_native_programs_refuse(self):
        refused = FSDP + "fsdp_config:\n  fsdp_version: 2\n  fsdp_activation_checkpointing_offload: true\n"
        shown = self.run_under(refused, code=1)
        self.assertEqual(self.outcomes(shown)["start"], "failed", shown)
        self.assertRegex(shown, r"(?m)^start: .*activation_checkpointing_offload is true")
        self.assertEqual(self.outcomes(shown)["restart"], "not run", shown)

    def test_names_the_check_that_a_wrong_engine_fails(self):
        shown = self.run_under(SET_UPS["three replicas"], code=1, ACCELERATE_COMM="carrier_pigeon")
        self.assertRegex(shown, r"(?m)^start: .*carrier_pigeon")

    def test_refuses_what_launch_refuses(self):
        shown = self.run_under("distributed_type: XLA\nnum_processes: 1\n", code=2)
        self.assertIn("distributed_type", shown)
        self.assertIn("set TMPDIR to an existing folder", self.run_under(SET_UPS["one process"], code=2, TMPDIR="/nonexistent"))
        self.assertIn("does not exist", self.accelerate("test", "--config_file", self.folder / "none.yaml", code=2))

    def test_believes_results_and_no_exit_code(self):
        """A helper that does nothing proves nothing."""
        build = self.folder / "build"
        (build / "libexec" / "accelerate").mkdir(parents=True)
        (build / "bin").mkdir()
        (build / "bin" / "accelerate").write_bytes(pathlib.Path(ACCELERATE).read_bytes())
        helper = build / "libexec" / "accelerate" / "accelerate-torch"
        helper.write_text("#!/bin/sh\nexit 0\n")
        for file in (helper, build / "bin" / "accelerate"):
            file.chmod(0o755)
        ran = subprocess.run([build / "bin" / "accelerate", "test"], capture_output=True, text=True, check=False, timeout=60,
                             env=os.environ | {"HF_HOME": str(self.folder)})
        self.assertEqual(ran.returncode, 1, ran.stdout)
        self.assertNotIn("success", ran.stdout)

    def test_a_full_disk_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for words in (["--version"], ["env"], ["man", "launch"], ["completion", "bash"]):
                ran = subprocess.run([ACCELERATE, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
                self.assertEqual(ran.returncode, 1, words)
                self.assertIn("No space left on device", ran.stderr, words)

    def test_shows_what_ranks_write_when_asked(self):
        (self.folder / "set_up.yaml").write_text(SET_UPS["one process"])
        self.accelerate("test", "--verbose", "--config_file", self.folder / "set_up.yaml")

    def test_env_tells_of_libtorch(self):
        shown = self.accelerate("env")
        for line in ("- LibTorch loaded: 2.", "- Shared memory: ", "- Communication on the CPU: ", "- CUDA in LibTorch: "):
            self.assertIn(line, shown)
        self.assertNotIn("LibTorch loaded", self.accelerate("env", "--without_libtorch"))

    def test_init_writes_a_project_once(self):
        folder = self.folder / "my-project"
        shown = self.accelerate("init", folder)
        self.assertIn("accelerate launch --config_file accelerate.yaml build/train", shown)
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         [".gitignore", "CMakeLists.txt", "README.md", "accelerate.yaml", "train.cpp"])
        self.assertIn("project(my-project", (folder / "CMakeLists.txt").read_text())
        self.assertIn("This command lies in no installed package", shown)
        for template, more in (("trainer", ["flowers.csv"]), ("loop", []), ("cv", [])):
            written = self.folder / template
            self.accelerate("init", written, "--template", template)
            self.assertEqual(sorted(path.name for path in written.iterdir()),
                             sorted([".gitignore", "CMakeLists.txt", "README.md", "accelerate.yaml", "train.cpp"] + more))
            for path in written.iterdir():
                self.assertNotRegex(path.read_text(), "@[A-Z_]+@", path)
        self.assertIn("Did you mean 'trainer'?", self.accelerate("init", self.folder / "x", "--template", "triner", code=2))
        self.assertIn("holds something already", self.accelerate("init", folder, code=2))
        (self.folder / "begun" / ".git").mkdir(parents=True)
        self.accelerate("init", self.folder / "begun")
        for name in ("3d", "a b", "-x", "é", "..", ""):
            self.accelerate("init", self.folder / name if name not in ("", "-x") else name, code=2)


if __name__ == "__main__":
    unittest.main()
