#!/usr/bin/env python3
"""Writes removed_arguments.json: the fields that TrainingArguments of Transformers 4 had and the installed version has not.

  pip download --no-deps --dest wheels transformers==4.0.1    # and further versions
  python tests/reference/removed_arguments.py wheels [output.json]
"""
import ast
import dataclasses
import json
import pathlib
import sys
import zipfile

from transformers import TrainingArguments


def fields_in(wheel):
    tree = ast.parse(zipfile.ZipFile(wheel).read("transformers/training_args.py"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "TrainingArguments"]
    return {line.target.id for line in classes[0].body if isinstance(line, ast.AnnAssign)}


def main():
    wheels = sorted(pathlib.Path(sys.argv[1]).glob("transformers-4.*.whl"))
    had = set().union(*map(fields_in, wheels))
    has = {field.name for field in dataclasses.fields(TrainingArguments)} | set(TrainingArguments.__annotations__)
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).with_suffix(".json")
    versions = [wheel.name.split("-")[1] for wheel in wheels]
    output.write_text(json.dumps({"versions": versions, "removed": sorted(had - has)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
