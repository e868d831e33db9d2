#!/usr/bin/env python3
"""Fills a folder with the first inputs of each fuzzer, taken from the goldens of tests/reference.

Usage: make_corpora.py FOLDER
Then `fuzz_<name> -set_cover_merge=1 tests/fuzz/corpus/<name> FOLDER/<name>` adds to the committed corpus what reaches new code.
"""
import json
import pathlib
import struct
import sys

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "reference"


def safetensors():
    golden = json.loads((REFERENCE / "safetensors_golden.json").read_text(encoding="utf-8"))
    yield from (bytes.fromhex(row["file"]) for row in golden["files"])
    for row in golden["headers"]:
        header = row["header"].encode()
        yield struct.pack("<Q", len(header)) + header + bytes(row["data"])


def weight_index():
    golden = json.loads((REFERENCE / "weight_index.json").read_text(encoding="utf-8"))
    yield from (row["index"].encode() for row in golden["plans"])
    yield b'{"metadata":{"total_size":1e3,"x":[null,true,-1.5]},"weight_map":{"w":"../a","v":"a.bin"}}'


def torch_archive():
    yield from (path.read_bytes() for path in sorted((REFERENCE / "torch_archive").glob("*.pt")))


def main():
    for make in (safetensors, weight_index, torch_archive):
        folder = pathlib.Path(sys.argv[1]) / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        inputs = list(make())
        for number, data in enumerate(inputs):
            (folder / f"{number:03}").write_bytes(data)
        print(f"{make.__name__}: {len(inputs)} inputs")


if __name__ == "__main__":
    main()
