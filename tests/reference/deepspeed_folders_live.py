#!/usr/bin/env python3
"""State folders of Python Accelerate under DeepSpeed, read and continued here. usage: deepspeed_folders_live.py BUILD [--seed N]

Makes every case of deepspeed_folders.py, with first weights and batches that the seed moves: ZeRO 0 to 3 on two and three
Gloo ranks, fp32 and bf16, offloaded, in groups, universal. Then the C++ tests read them: weights and moments are equal
bit for bit, and five more steps have the same losses. They also write universal checkpoints, from which DeepSpeed goes on
with the same losses. --folders FOLDER keeps the folders; it takes those that are there.

Run it by a Python with deepspeed 0.19.8 (HACKING.md). Exits with 77 where there is none.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seed", type=float, default=1.5)
    parser.add_argument("--folders", type=pathlib.Path)
    arguments = parser.parse_args()
    os.environ["DS_ACCELERATOR"] = "cpu"
    try:
        import deepspeed  # noqa: F401
    except ImportError:
        print("there is no deepspeed in this Python")
        return 77
    with tempfile.TemporaryDirectory() as temporary:
        folders = arguments.folders or pathlib.Path(temporary)
        if not folders.exists() or not any(folders.iterdir()):
            subprocess.run([sys.executable, HERE / "deepspeed_folders.py", folders, "--seed", str(arguments.seed)], check=True)
        environment = os.environ | {"ACCELERATE_DEEPSPEED_FOLDERS": str(folders.resolve())}
        for binary, tests in (("test_formats", "DeepSpeedCheckpoint.*"), ("test_checkpoint", "PythonDeepSpeed.*")):
            subprocess.run([arguments.build / "tests" / binary, f"--gtest_filter={tests}"], check=True, env=environment)
        back = pathlib.Path(temporary) / "universal"
        test = [arguments.build / "tests/test_checkpoint", "--gtest_filter=PythonDeepSpeed.GoesBack*"]
        subprocess.run(test, check=True, env=environment | {"ACCELERATE_UNIVERSAL_FOLDERS": str(back)})
        subprocess.run([sys.executable, HERE / "deepspeed_folders.py", back, "--resume", "--seed", str(arguments.seed)], check=True)
        print(f"{len(list(folders.iterdir()))} folders read and continued")
    return 0


if __name__ == "__main__":
    sys.exit(main())
