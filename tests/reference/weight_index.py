#!/usr/bin/env python3
"""Writes weight_index.json beside itself: how huggingface_hub deals tensors to files, the index it makes of that, and sizes.

Usage: weight_index.py [seed] [output]
"plans": names and sizes of tensors, the limit, the files in order with their tensors, and the text of the index.
"sizes": texts of a size and the bytes that huggingface_hub reads in them, null where it refuses.
"""
import json
import pathlib
import random
import sys

from huggingface_hub.serialization._base import parse_size_to_int, split_state_dict_into_shards_factory

SIZES = ["5GB", "1KB", "1kb", "2Mb", " 3 MB ", "1.5GB", "0.5KB", "1TB", ".25MB", "1e3KB", "0KB", "10 TB", "1.9999KB",
         "GB", "5G", "5GiB", "five GB", "5 G B", "5,5GB", "", "B", "--5GB"]


def plan(title, tensors, limit):
    split = split_state_dict_into_shards_factory(
        dict(tensors), get_storage_size=lambda size: size, filename_pattern="model{suffix}.safetensors",
        max_shard_size=limit)
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    return {"title": title, "tensors": tensors, "limit": limit,
            "files": [[name, names] for name, names in split.filename_to_tensors.items()],
            "index": json.dumps(index, indent=2, sort_keys=True) + "\n"}


def random_plans(rng):
    for number in range(60):
        names = {"".join(rng.choice("abz.09_é漢😀\"\\\x7f") for _ in range(rng.randrange(1, 9))) for _ in range(rng.randrange(1, 30))}
        names = sorted(names)
        rng.shuffle(names)
        yield plan(f"random {number}", [[name, rng.choice([0, 1, 40, 400, 999, 1000, 1001, rng.randrange(3000)])] for name in names],
                   rng.choice([1, 500, 1000, 1001, 2500, 10**6]))


def plans(rng):
    model = [["a.weight", 400], ["a.bias", 40], ["b.weight", 1600], ["b.bias", 160], ["c.weight", 1600], ["c.bias", 40],
             ["d.bias", 40]]
    for limit in [500, "1KB", "5GB", 1600, 1599, 0]:
        yield plan(f"four layers, {limit}", model, limit)
    yield plan("one tensor", [["w", 10]], 10)
    yield plan("one tensor that is too big", [["w", 11]], 10)
    yield plan("only big ones", [["x", 11], ["y", 12]], 10)
    yield plan("a big one between small ones", [["x", 6], ["big", 11], ["y", 4], ["z", 1]], 10)
    yield plan("exact fits", [[f"t{i}", 5] for i in range(6)], 10)
    yield plan("many files", [[f"layer.{i}", 7] for i in range(120)], 10)
    yield plan("sizes beyond 32 bits", [["x", 6 * 10**9], ["y", 6 * 10**9], ["z", 2 * 10**9]], "10GB")
    yield from random_plans(rng)


def size_of(text):
    try:
        return parse_size_to_int(text)
    except ValueError:
        return None


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 20260131)
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).with_suffix(".json")
    golden = {"plans": list(plans(rng)), "sizes": [[text, size_of(text)] for text in SIZES]}
    lines = [f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for key, rows in golden.items()]
    output.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(golden['plans'])} plans, {len(golden['sizes'])} sizes")


if __name__ == "__main__":
    main()
