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


def manifest():
    file = {"name": "model.safetensors", "size_bytes": 1234, "xxh3_64": "0123456789abcdef"}
    whole = {"files": [file, {**file, "name": "optimizer.json"}], "format": 1, "num_processes": 2}
    yield json.dumps(whole).encode()
    yield json.dumps(whole, indent=2).encode()
    for key, value in (("format", 2), ("num_processes", 0), ("files", []), ("files", [file, file])):
        yield json.dumps({**whole, key: value}).encode()
    for key, value in (("name", "../a"), ("name", ""), ("size_bytes", -1), ("size_bytes", 2**63), ("xxh3_64", "0")):
        yield json.dumps({**whole, "files": [{**file, key: value}]}).encode()


def torch_archive():
    yield from (path.read_bytes() for path in sorted((REFERENCE / "torch_archive").glob("*.pt")))


def sharding_info():
    tiles = {"a": [[0, 0], [6, 2]], "b": [[0, 2], [3, 4]], "c": [[3, 2], [3, 3]], "d": [[3, 5], [3, 1]]}
    lines = {"a": [[0], [6]], "b": [[2], [3]]}
    cubes = {"a": [[0, 0, 0], [6, 6, 3]], "b": [[0, 0, 3], [6, 2, 3]], "c": [[0, 2, 3], [6, 4, 2]]}
    for boxes in (tiles, lines, cubes, {"s": [[], []]}, {"big": [[2**63 - 1], [2**62]]}):
        yield json.dumps({n: {"saved_offsets": o, "global_shape": s} for n, (o, s) in boxes.items()}).encode()
    yield b'{"w": {"saved_offsets": [0], "global_shape": [1], "more": [{"x": [null, -1.5]}]}}'
    yield b'{"w": {"saved_offsets": [0], "global_shape": [1]}, "w": {}}'


def main():
    for make in (safetensors, weight_index, manifest, sharding_info, torch_archive):
        folder = pathlib.Path(sys.argv[1]) / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        inputs = list(make())
        for number, data in enumerate(inputs):
            (folder / f"{number:03}").write_bytes(data)
        print(f"{make.__name__}: {len(inputs)} inputs")


if __name__ == "__main__":
    main()
