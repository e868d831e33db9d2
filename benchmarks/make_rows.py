#!/usr/bin/env python3
"""Makes the files that the suite `datasets` reads, of the texts of collect_texts.py.

usage: make_rows.py ENGLISH.TXT FOLDER ROWS CSV_BYTES TABLE_ROWS

FOLDER/texts.txt: ROWS texts, one a line. Where there are too few, the first ones are cut into sentences.
FOLDER/rows.csv: CSV_BYTES of numbers, texts and random floats. A text is quoted if it has a comma or a quote, as most have.
FOLDER/table.csv and FOLDER/table.jsonl: the same TABLE_ROWS rows of a number, a sentence, a float, a class and a boolean.
"""
import csv
import itertools
import json
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


def write_table(folder, texts, count):
    numbers, texts = random.Random(0), itertools.cycle(texts)
    with open(folder / "table.csv", "w", encoding="utf-8", newline="") as table, open(folder / "table.jsonl", "w", encoding="utf-8") as lines:
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(["id", "text", "score", "label", "flag"])
        for number in range(count):
            row = {"id": number, "text": next(texts), "score": round(numbers.random(), 6), "label": numbers.randrange(5), "flag": numbers.random() < 0.5}
            rows.writerow(row.values())
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def main(english, folder, count, csv_bytes, table_rows):
    folder = pathlib.Path(folder)
    paragraphs = pathlib.Path(english).read_bytes().decode().split("\0")[:-1]
    texts = list(cut(paragraphs, int(count)))
    if len(texts) != int(count):
        sys.exit(f"make_rows.py: {english} has only {len(texts)} texts and sentences; {count} were asked for")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "texts.txt").write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    write_csv(folder / "rows.csv", paragraphs, int(csv_bytes))
    write_table(folder, texts, int(table_rows))


if len(sys.argv) != 6:
    sys.exit("usage: make_rows.py ENGLISH.TXT FOLDER ROWS CSV_BYTES TABLE_ROWS")
main(*sys.argv[1:])
