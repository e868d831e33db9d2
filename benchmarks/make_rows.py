#!/usr/bin/env python3
"""Makes the files that the suite `datasets` reads, of the texts of collect_texts.py.

usage: make_rows.py ENGLISH.TXT FOLDER ROWS CSV_BYTES

FOLDER/texts.txt: ROWS texts, one a line. Where there are too few, the first ones are cut into sentences.
FOLDER/rows.csv: CSV_BYTES of numbers, texts and random floats. A text is quoted if it has a comma or a quote, as most have.
"""
import csv
import itertools
import pathlib
import random
import sys

ROWS_AT_ONCE = 10_000


def cut(texts, count):
    """`count` texts."""
    missing = max(count - len(texts), 0)
    for text in texts[:count]:
        parts = text.split(". ", missing)
        missing -= len(parts) - 1
        yield from parts


def write_csv(file, texts, size):
    floats, texts, number = random.Random(0), itertools.cycle(texts), 0
    with open(file, "w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["number", "text", "score"])
        while stream.tell() < size:
            rows.writerows((number + i, next(texts), round(floats.random(), 6)) for i in range(ROWS_AT_ONCE))
            number += ROWS_AT_ONCE


def main(english, folder, count, csv_bytes):
    folder = pathlib.Path(folder)
    paragraphs = pathlib.Path(english).read_bytes().decode().split("\0")[:-1]
    texts = list(cut(paragraphs, int(count)))
    if len(texts) != int(count):
        sys.exit(f"make_rows.py: {english} has only {len(texts)} texts and sentences; {count} were asked for")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    write_csv(folder / "rows.csv", paragraphs, int(csv_bytes))


if len(sys.argv) != 5:
    sys.exit("usage: make_rows.py ENGLISH.TXT FOLDER ROWS CSV_BYTES")
main(*sys.argv[1:])
