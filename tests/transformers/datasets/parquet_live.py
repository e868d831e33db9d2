#!/usr/bin/env python3
"""Compares Parquet that this library writes with what pyarrow and Hugging Face `datasets` read and write.

usage: parquet_live.py PROBE [--cases N] [--seed S]

Writes random datasets, with rows selected and shuffled. pyarrow reads them: rows, types, compression. Where `datasets` (5.2)
is installed it reads them too, and what it writes of the same rows has the same bytes. Then this library reads what it and
`datasets` wrote. Exits 1 and prints the first difference; 77 without pyarrow or in a build that writes no Parquet.
"""
import argparse
import array
import json
import math
import pathlib
import random
import string
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)
try:
    import datasets
    datasets.disable_progress_bars()
except ImportError:
    datasets = None

TYPES = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "null": pa.null()}
COLUMNS = ["text", "label", "score", "flag", "né.\"1\"", "_type", "huggingface", "ids", ""]


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the probe ended at {request!r}"[:2000])
        answer = json.loads(line)
        if isinstance(answer, dict) and "this build cannot write it" in answer["error"]:
            print(f"skipped: {answer['error']}")
            sys.exit(SKIPPED)
        if isinstance(answer, dict):
            sys.exit(f"the probe refused {request!r}: {answer['error']}"[:2000])
        return answer


# --- Random datasets: a type is a name of TYPES, or a list of one type ---

def random_type(draw, depth=0):
    if depth < 3 and draw.random() < 0.35:
        return [random_type(draw, depth + 1)]
    return draw.choice(["int64", "float64", "bool", "string", "string", "null"])


def random_value(draw, kind, missing):
    if kind == "null" or draw.random() < missing:
        return None
    if isinstance(kind, list):
        return [random_value(draw, kind[0], missing) for _ in range(draw.choice([0, 1, 2, 3, 9]))]
    if kind == "int64":
        return draw.choice([0, -1, draw.randrange(100), draw.randrange(-2**63, 2**63)])
    if kind == "float64":
        return draw.choice([0.5, -0.0, draw.uniform(-1, 1), draw.uniform(-1, 1) * 10.0 ** draw.randrange(-300, 300)])
    if kind == "bool":
        return draw.random() < 0.5
    return "".join(draw.choice(string.ascii_letters + " \"\\\0\n\t\x7fß你😀") for _ in range(draw.choice([0, 1, 5, 5, 40])))


def type_of_values(values):
    """What this library makes of them; every value is of one type, or missing."""
    values = [value for value in values if value is not None]
    if values and isinstance(values[0], list):
        return [type_of_values([entry for value in values for entry in value])]
    names = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return names[type(values[0])] if values else "null"


def random_rows(draw):
    columns = {name: (random_type(draw), draw.choice([0, 0.1, 0.5])) for name in draw.sample(COLUMNS, draw.randint(1, 6))}
    count = draw.choice([1, 2, 7, 100, 700])
    return [{name: random_value(draw, kind, missing) for name, (kind, missing) in columns.items()} for _ in range(count)]


def random_steps(draw, rows, types):
    steps = []
    encodable = [name for name, kind in types.items() if kind in ("int64", "bool", "string")]
    if encodable and draw.random() < 0.6:
        steps.append(["class_encode", draw.choice(encodable)])
    if draw.random() < 0.5:
        steps.append(["shuffle", draw.randrange(2**40)])
    if draw.random() < 0.3:
        steps.append(["select", [draw.randrange(len(rows)) for _ in range(draw.randrange(20))]])
    if draw.random() < 0.2:
        steps.append(["twice"])
    return steps


def class_names(rows, name):
    """What class_encode_column() numbers: the values as strings, sorted."""
    return sorted({str(row[name]) for row in rows if row[name] is not None})


# --- What is expected of a file ---

def arrow_type(kind):
    return pa.list_(pa.field("element", arrow_type(kind[0]))) if isinstance(kind, list) else TYPES[kind]


def description(kind):
    if isinstance(kind, list):
        return {"feature": description(kind[0]), "_type": "List"}
    return {"dtype": kind, "_type": "Value"}


def differs(what, found, wanted):
    if repr(found) == repr(wanted):  # -0.0 is not 0.0, nor is 1 True.
        return False
    print(f"{what}:\n  found  {found!r}"[:1500] + f"\n  wanted {wanted!r}"[:1500])
    return True


def check_with_pyarrow(file, rows, types, labels):
    opened = pq.ParquetFile(file)
    types = {name: "int64" if name in labels else kind for name, kind in types.items()}
    features = {name: {"names": labels[name], "_type": "ClassLabel"} if name in labels else description(kind)
                for name, kind in types.items()}
    schema = opened.schema_arrow
    codecs = {opened.metadata.row_group(group).column(column).compression
              for group in range(opened.metadata.num_row_groups) for column in range(opened.metadata.num_columns)}
    return (differs("types", [(field.name, field.type) for field in schema], [(n, arrow_type(k)) for n, k in types.items()])
            or differs("metadata", schema.metadata[b"huggingface"].decode(), json.dumps({"info": {"features": features}}))
            or differs("compression", codecs - {"SNAPPY"}, set())
            or differs("rows", opened.read().to_pylist(), rows))


def check_with_datasets(file, rows, folder):
    features = datasets.Features.from_dict(json.loads(pq.read_schema(file).metadata[b"huggingface"])["info"]["features"])
    again = folder / "python.parquet"
    # One row group: by itself it makes a group a row where all values are missing.
    columns = {name: [row[name] for row in rows] for name in features}
    datasets.Dataset.from_dict(columns, features=features).to_parquet(str(again), batch_size=max(len(rows), 1))
    if differs("Python's bytes are ours", again.read_bytes() == file.read_bytes(), True):
        return True
    if not rows:  # load_dataset() refuses a split without rows.
        return False
    read = datasets.load_dataset("parquet", data_files=str(file), cache_dir=str(folder / "python_cache"), split="train")
    return (differs("features in Python", dict(read.features), dict(features))
            or differs("rows in Python", read.to_list(), rows))


def check_case(draw, probe, folder):
    file = folder / "ours.parquet"
    rows = random_rows(draw)
    types = {name: type_of_values([row[name] for row in rows]) for name in rows[0]}
    steps = random_steps(draw, rows, types)
    probe.ask(rows=rows)
    written = probe.ask(do=steps, parquet=str(file))
    labels = {name: class_names(rows, name) for kind, name in (step[:2] for step in steps if step[0] == "class_encode")}
    if check_with_pyarrow(file, written, types, labels):
        return False
    if datasets and check_with_datasets(file, written, folder):
        return False
    for path in [file] + ([folder / "python.parquet"] if datasets else []):
        if differs(f"rows of {path.name}", probe.ask(load="parquet", files=[str(path)], cache=str(folder / "cache")), written):
            return False
    return True


def check_halves(probe, folder):
    """Floats of 16 bits, which this library reads and does not write: all of them, alone and in lists."""
    halves = pa.Array.from_buffers(pa.float16(), 1 << 16, [None, pa.py_buffer(array.array("H", range(1 << 16)))])
    pairs = pa.FixedSizeListArray.from_arrays(halves, 2)
    for column in (halves, pairs):
        file = folder / "halves.parquet"
        pq.write_table(pa.table({"half": column}), file)
        # JSON has neither infinity nor NaN: the probe answers null.
        wanted = [[finite(x) for x in v] if isinstance(v, list) else finite(v) for v in column.to_pylist()]
        read = probe.ask(load="parquet", files=[str(file)], cache=str(folder / "cache"))
        if differs("halves", [row["half"] for row in read], wanted):
            return False
    return True


def finite(value):
    return float(value) if math.isfinite(value) else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--cases", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    probe = Probe(options.probe)
    with tempfile.TemporaryDirectory() as folder:
        if not check_halves(probe, pathlib.Path(folder)):
            sys.exit(1)
    for case in range(options.cases):
        with tempfile.TemporaryDirectory() as folder:
            if not check_case(random.Random(f"{options.seed} {case}"), probe, pathlib.Path(folder)):
                print(f"in case {case} of seed {options.seed}")
                sys.exit(1)
    others = "pyarrow and datasets" if datasets else "pyarrow; `datasets` is not installed"
    print(f"{options.cases} datasets are the same for {others}")


if __name__ == "__main__":
    main()
