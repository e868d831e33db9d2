#!/usr/bin/env python3
"""Compares a SentencePiece model read without a class with SentencePiece itself: ids and decoded text.

usage: sentencepiece_live.py PROBE MODEL... [--stress N] [--seed S] [--lines FILE]

Exits 1 and prints the first differences.
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

import sentencepiece
from pretrained_live import Probe
from tokenizers_live import stress


def compare(probe, model, texts):
    """How many of `texts` SentencePiece cuts otherwise."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(model, pathlib.Path(folder) / "tokenizer.model")
        if opened := probe.ask(open=folder):
            print(opened)
            return 1
        for text in texts:
            want = processor.encode(text)
            have = probe.ask(call={"text": text}).get("input_ids", [None])[0]
            if want != have:
                faults += 1
                if faults <= 5:
                    print(f"{model.name}: {text!r}\n  {[processor.id_to_piece(i) for i in want]}\n  {have and [processor.id_to_piece(i) for i in have]}"[:900])
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--stress", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", action="append", default=[])
    args = parser.parse_args()
    # Control symbols in a text are no tokens to SentencePiece, which knows them by their ids alone.
    texts = [line for name in args.lines for line in open(name, encoding="utf-8", errors="replace").read().split("\n")]
    texts += stress(args.stress, args.seed, [])
    failed = 0
    for model in args.models:
        faults = compare(Probe(args.probe), model, texts)
        print(f"{model.parent.name}: {len(texts)} texts compared, {faults} differ")
        failed += faults
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
