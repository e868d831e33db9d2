#!/usr/bin/env python3
"""Makes the batches that the suite `models` computes: sayings of eight topics, tokens of MiniLM, 16 rows padded to the longest.

usage: make_batches.py TOKENIZER.JSON FILE BATCHES

FILE becomes a safetensors file with N.input_ids, N.attention_mask and N.labels, int64, for N from 0. The texts are those of the
Debian package fortunes, which scripts/setup installs. Rows have at most 128 tokens.
"""
import pathlib
import random
import sys

import safetensors.torch
import torch
from tokenizers import Tokenizer

FORTUNES = pathlib.Path("/usr/share/games/fortunes")
TOPICS = ["art", "computers", "food", "law", "men-women", "politics", "science", "songs-poems"]
ROWS = 16


def rows():
    found = []
    for label, topic in enumerate(TOPICS):
        texts = (FORTUNES / topic).read_text(encoding="utf-8").split("\n%\n")
        found += [(text.strip(), label) for text in texts if text.strip()]
    random.Random(1).shuffle(found)
    return found


def main(tokenizer_file, file, count):
    tokenizer = Tokenizer.from_file(tokenizer_file)
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    if not FORTUNES.is_dir():
        sys.exit(f"make_batches.py: there is no {FORTUNES}; apt-get install fortunes")
    chosen, tensors = rows(), {}
    for batch in range(int(count)):
        texts, labels = zip(*chosen[batch * ROWS:(batch + 1) * ROWS])
        ids = [torch.tensor(encoding.ids) for encoding in tokenizer.encode_batch(list(texts))]
        mask = [torch.ones_like(row) for row in ids]
        pad = torch.nn.utils.rnn.pad_sequence
        tensors |= {f"{batch}.input_ids": pad(ids, batch_first=True), f"{batch}.attention_mask": pad(mask, batch_first=True),
                    f"{batch}.labels": torch.tensor(labels)}
    safetensors.torch.save_file(tensors, file)


main(*sys.argv[1:])
