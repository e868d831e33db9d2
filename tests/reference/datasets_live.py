#!/usr/bin/env python3
"""Compares datasets of this library with Hugging Face `datasets`: files, streams, and the rows that a seed chooses.

usage: datasets_live.py PROBE [--cases N] [--seed S] [--save FILE]

Floats have six digits, as Python reads JSON lists with ten. Needs `datasets` (5.2.0), which nothing else here does: install it into an
environment of its own. --save keeps questions and answers for datasets_golden.py. Exits 1 and prints the first differences.
"""
import argparse
import csv
import json
import math
import pathlib
import random
import string
import subprocess
import sys
import tempfile

import datasets


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the probe ended at {request!r}"[:2000])
        return json.loads(line)


def words(draw, most=4):
    letters = string.ascii_letters + " ,\"'\n\t;éß你😀"
    return "".join(draw.choice(letters) for _ in range(draw.randint(1, 12)))


def random_rows(draw, count):
    makers = {"text": lambda: words(draw), "label": lambda: draw.randrange(3), "score": lambda: round(draw.random() * 10, 6),
              "flag": lambda: draw.random() < 0.5, "ids": lambda: [draw.randrange(100) for _ in range(draw.randrange(4))],
              "names": lambda: [words(draw) for _ in range(draw.randrange(3))]}
    chosen = ["label"] + draw.sample(["text", "score", "flag", "ids", "names"], draw.randint(1, 5))
    return [{name: makers[name]() for name in chosen} for _ in range(count)]


def random_steps(draw, rows):
    names, count = list(rows[0]), len(rows)
    steps = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.choice(["shuffle", "shuffle", "select", "sort", "shard", "twice", "split", "split", "stratify"])
        if kind == "shuffle":
            steps.append(["shuffle", draw.choice([0, 1, 42, 2**32 - 1, 2**32, draw.randrange(2**63)])])
        elif kind == "sort":
            steps.append(["sort", draw.choice([n for n in names if n in ("label", "text", "score")]), draw.random() < 0.5])
        elif kind == "select":
            steps.append(["select", [draw.randrange(min(count, 2)) for _ in range(5)]])
            return steps
        elif kind == "shard":
            steps.append(["shard", 2, draw.randrange(2), draw.random() < 0.5])
            return steps
        elif kind == "twice":
            steps.append(["twice"])
        else:
            options = {"seed": draw.randrange(2**40), "shuffle": draw.random() < 0.8}
            if draw.random() < 0.7:
                options["test_size"] = draw.choice([0.1, 0.25, 0.5, 1, 3, 7])
            if draw.random() < 0.4:
                options["train_size"] = draw.choice([0.1, 0.5, 0.3, 2, 5])
            if kind == "stratify":
                options["shuffle"] = True
                options["stratify_by_column"] = "label"
                steps.append(["class_encode", "label"])
            steps.append(["split", options])
            return steps
    return steps


def done(dataset, step):
    name, *rest = step
    if name == "shuffle":
        return dataset.shuffle(seed=rest[0])
    if name == "select":
        return dataset.select(rest[0])
    if name == "sort":
        return dataset.sort(rest[0], reverse=rest[1])
    if name == "shard":
        return dataset.shard(rest[0], rest[1], contiguous=rest[2])
    if name == "twice":
        return datasets.concatenate_datasets([dataset, dataset])
    if name == "class_encode":
        return dataset.class_encode_column(rest[0])
    parts = dataset.train_test_split(**rest[0])
    return datasets.concatenate_datasets([parts["train"], parts["test"]])


def plain(value):
    """Without the difference between NaN and nothing."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def same(want, have):
    return json.dumps(plain_rows(want)) == json.dumps(plain_rows(have))


def plain_rows(rows):
    return [{name: plain(value) for name, value in row.items()} for row in rows] if isinstance(rows, list) else rows


class Comparison:
    def __init__(self):
        self.count = self.faults = 0
        self.kept = []

    def keep(self, want, request, file=None):
        """For --save: what was asked, of which file, and Python's answer; None where Python refuses."""
        text = None if file is None else file.read_bytes().decode()
        self.kept.append({"request": request, "file": text, "want": plain_rows(want)})

    def check(self, what, want, have):
        self.count += 1
        if isinstance(have, dict) and "error" in have and want is None or want is not None and same(want, have):
            return
        self.faults += 1
        if self.faults <= 5:
            print(f"{what!r}"[:700], f"\n  {want!r}"[:700], f"\n  {have!r}"[:700])


def compare_choices(probe, draw, comparison):
    rows = random_rows(draw, draw.randint(8, 60))
    dataset = datasets.Dataset.from_list(rows)
    comparison.check("rows", list(dataset), probe.ask(rows=rows))
    comparison.keep(list(dataset), {"rows": rows})
    for _ in range(4):
        steps = random_steps(draw, rows)
        changed = dataset
        try:
            for step in steps:
                changed = done(changed, step)
            want = list(changed)
        except ValueError:
            want = None
        comparison.check(steps, want, probe.ask(do=steps))
        comparison.keep(want, {"do": steps})


def compare_files(probe, draw, comparison, folder, number):
    rows = random_rows(draw, draw.randint(2, 50))
    path = folder / f"{number}"
    kind = draw.choice(["json", "json_list", "csv", "text", "parquet"])
    request = {"files": [str(path)], "cache": str(folder / "ours")}
    if kind == "text":
        path.write_text("".join(row.get("text", "a").replace("\n", " ") + "\n" for row in rows), encoding="utf-8")
        builder = "text"
    elif kind == "csv":
        names = [name for name in rows[0] if name not in ("ids", "names")]
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in rows:
                writer.writerow(["" if draw.random() < 0.1 and name == "score" else row[name] for name in names])
        builder = "csv"
    elif kind == "parquet":
        dataset = datasets.Dataset.from_list(rows)
        if draw.random() < 0.5:
            dataset = dataset.class_encode_column("label")
        dataset.to_parquet(str(path), batch_size=draw.choice([7, 1000]))
        builder = "parquet"
    else:
        builder = "json"
        text = json.dumps(rows) if kind == "json_list" else "\n".join(json.dumps(row, ensure_ascii=draw.random() < 0.5) for row in rows)
        path.write_text(text, encoding="utf-8")
    want = datasets.load_dataset(builder, data_files=str(path), split="train", cache_dir=str(folder / "theirs"))
    comparison.check([kind, "load"], list(want), probe.ask(load=builder, **request))
    comparison.check([kind, "cached"], list(want), probe.ask(load=builder, **request))
    if kind != "parquet":
        comparison.keep(list(want), {"load": builder}, path)
    # Python shuffles the rows of files by tables; one by one, they come in the order that ours do.
    read = list(want)
    stream = datasets.IterableDataset.from_generator(lambda: iter(read))
    seed, buffer_size = draw.randrange(2**32), draw.randint(1, 60)
    shuffled = stream.shuffle(seed=seed, buffer_size=buffer_size)
    passes = []
    for epoch in range(3):
        shuffled.set_epoch(epoch)
        passes.append(list(shuffled))
    have = probe.ask(stream=builder, seed=seed, buffer_size=buffer_size, passes=3, **request)
    for epoch in range(3):
        comparison.check([kind, "stream", seed, buffer_size, epoch], passes[epoch], have[epoch] if isinstance(have, list) else have)
    if kind != "parquet":
        comparison.keep([row for one in passes for row in one], {"stream": builder, "seed": seed, "buffer_size": buffer_size, "passes": 3}, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path)
    args = parser.parse_args()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    draw, comparison, probe = random.Random(args.seed), Comparison(), Probe(args.probe)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.cases):
            compare_choices(probe, draw, comparison)
            if number % 4 == 0:
                compare_files(probe, draw, comparison, pathlib.Path(folder), number)
    if args.save:
        args.save.write_text("[\n" + ",\n".join(json.dumps(one) for one in comparison.kept) + "\n]\n", encoding="utf-8")
    print(f"{comparison.count} answers compared, {comparison.faults} differ")
    sys.exit(comparison.faults > 0)


if __name__ == "__main__":
    main()
