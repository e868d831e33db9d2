#!/usr/bin/env python3
"""SmolLM2-135M, trained weights, against Transformers: part of `scripts/test --extended`, since it is 93 MB to download.

usage: smollm2_test.py BUILD
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def main(build):
    build, models, python = pathlib.Path(build), ROOT / ".cache" / "tokenizers", [sys.executable, "-W", "ignore"]
    fetched = subprocess.run([*python, ROOT / "tools" / "fetch_models.py", models, "smollm2"], check=False)
    if fetched.returncode != 0:
        return 1
    reference, probe = ROOT / "tests" / "reference", build / "tests" / "model_probe"
    for command in ([reference / "gguf_live.py", probe, "--file", models / "smollm2" / "model.gguf", "--least", "272"],
                    [reference / "smollm2_live.py", probe, build / "tests" / "tokenizer_probe", models]):
        if subprocess.run([*python, *command], check=False).returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
