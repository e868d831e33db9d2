"""Encodes texts by a tokenizer.json with Hugging Face `tokenizers` and reports how long it took.

usage: tokenize_text.py TOKENIZER.JSON TEXTS full|ids|batches|batch|open

TEXTS: a file of texts, a zero byte behind each. What tokenizer.json says of truncation and padding is left out. full: encode() of each text. ids: the ids of each text as a list, in
the quickest of Python's ways, encode_batch_fast of one text. batches: 1,000 texts in one encode_batch. batch: all texts in one. open: reads the tokenizer.
"""
import pathlib
import sys
import time

from tokenizers import Tokenizer

import measure


def encode_each(tokenizer, texts):
    return sum(len(tokenizer.encode(text)) for text in texts)


def encode_ids(tokenizer, texts):
    return sum(len(tokenizer.encode_batch_fast([text])[0].ids) for text in texts)


def encode_batch(tokenizer, texts):
    return sum(len(encoding) for encoding in tokenizer.encode_batch(texts))


def encode_batches(tokenizer, texts):
    return sum(encode_batch(tokenizer, texts[i:i + 1000]) for i in range(0, len(texts), 1000))


def main(tokenizer_file, text_file, kind):
    texts = pathlib.Path(text_file).read_bytes().decode().split("\0")[:-1]
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(tokenizer_file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    opened, seconds, tokens = time.perf_counter() - start, 0, 0
    if kind != "open":
        start = time.perf_counter()
        tokens = {"full": encode_each, "ids": encode_ids, "batches": encode_batches,
                  "batch": encode_batch}[kind](tokenizer, texts)
        seconds = time.perf_counter() - start
    measure.report(open_seconds=opened, encode_seconds=seconds, bytes=sum(len(text.encode()) for text in texts),
                   tokens=tokens)


main(*sys.argv[1:])
