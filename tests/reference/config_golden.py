#!/usr/bin/env python3
"""Writes tests/reference/config_golden.json: what Python Accelerate makes of each file in tests/launch/config/data.

A row: the file, and the YAML and JSON text that Accelerate writes after loading it.
"""
import json
import pathlib
import tempfile

from accelerate.commands.config.config_args import load_config_from_file

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "config" / "data"


def row(path):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        load_config_from_file(str(path)).to_yaml_file(str(out))
        yaml_text = out.read_text()
        load_config_from_file(str(path)).to_json_file(str(out))
        return {"file": path.name, "yaml": yaml_text, "json": out.read_text()}


def main():
    rows = [row(path) for path in sorted(DATA.iterdir())]
    (HERE / "config_golden.json").write_text(json.dumps({"count": len(rows), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
