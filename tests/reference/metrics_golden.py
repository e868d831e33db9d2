#!/usr/bin/env python3
"""Writes tests/reference/metrics_golden.json: metrics, their batches, and what scikit-learn, SciPy and seqeval answer.

usage: metrics_golden.py [--seed N] [--rounds K]

The cases are those of tests/transformers/trainer/metrics_live.py. Needs numpy, scipy, scikit-learn and seqeval.
"""
import argparse
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trainer"))
import metrics_live  # noqa: E402


def is_small(question):
    return len(json.dumps(question)) < 1600


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=80)
    options = parser.parse_args()
    if metrics_live.MISSING:
        sys.exit(f"the originals are missing: {metrics_live.MISSING}")
    draw = random.Random(options.seed)
    cases = [metrics_live.random_case(draw, kind) for _ in range(options.rounds) for kind in metrics_live.KINDS]
    lines = [json.dumps({"question": question, "want": want}, separators=(",", ":")) for question, want in cases if is_small(question)]
    path = HERE / "metrics_golden.json"
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"{len(lines)} cases written to {path.name}")


if __name__ == "__main__":
    main()
