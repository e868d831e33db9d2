#!/usr/bin/env python3
"""Writes tests/reference/rows.parquet as Python `datasets` does, with names of classes beside the schema.

usage: parquet_rows.py [FILE]
"""
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 1000


def main():
    file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "rows.parquet"
    table = pa.table({
        "text": pa.array([f"row {i}" for i in range(ROWS)]),
        "label": pa.array([i % 2 for i in range(ROWS)], pa.int64()),
        "score": pa.array([i / 8 for i in range(ROWS)], pa.float32()),
        "ids": pa.array([list(range(i % 4)) for i in range(ROWS)], pa.list_(pa.int32())),
        "flag": pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(ROWS)]),
    })
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, file, row_group_size=300, compression="zstd")


if __name__ == "__main__":
    main()
