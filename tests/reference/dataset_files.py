#!/usr/bin/env python3
"""Writes tests/reference/dataset_files.json: files written by hand, and the rows that Hugging Face `datasets` reads from them.

usage: dataset_files.py [FILE]

Needs `datasets` (5.2.0) in an environment of its own, as datasets_live.py does. datasets_golden.py asks this library.
"""
import json
import pathlib
import sys
import tempfile

import datasets

# Lines of CSV. Each is written with every end of lines, with and without one behind the last line.
CSV = [
    ["a", "x", " ", "y", " "],
    ["a", "x", "\t ", "", "y", "", "  "],
    ["a,b", "1,2", "  ", "3,4", "  "],
    ["", " ", "a,b", "1,2"],
    ["a,b", '1,5" disk', "2,x"],
    ["a,b", '5" disk,w', "2,\"x\"", 'y,7"'],
    ["a", '5"', '6"'],
]


def files():
    for lines in CSV:
        for end in ["\n", "\r\n", "\r"]:
            for last in ["", end]:
                yield "csv", end.join(lines) + last


def main():
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "dataset_files.json"
    datasets.disable_progress_bars()
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "data"
        for kind, text in files():
            path.write_bytes(text.encode())
            rows = datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=folder, download_mode="force_redownload")
            kept.append({"request": {"load": kind}, "file": text, "want": list(rows)})
    file.write_text("[\n" + ",\n".join(json.dumps(one) for one in kept) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
