#!/usr/bin/env python3
"""Writes checksum.json beside itself: the XXH3-64 of patterns of many lengths, from Python's xxhash.

Usage: checksum.py   (needs the package xxhash)
Byte i of a pattern is (i * i + i // 256) modulo 256.
"""
import json
import pathlib

import xxhash

SIZES = [*range(0, 18), 31, 32, 33, 63, 64, 65, 127, 128, 129, 130, 239, 240, 241, 255, 256, 257, 511, 512, 513,
         1023, 1024, 1025, 4096, 10_000, 65_536, 100_003, 1_000_000]


def pattern(size):
    return bytes((i * i + i // 256) & 0xFF for i in range(size))


def main():
    rows = [{"size": size, "xxh3_64": xxhash.xxh3_64(pattern(size)).hexdigest()} for size in SIZES]
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    pathlib.Path(__file__).with_suffix(".json").write_text(text, encoding="utf-8")
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main()
