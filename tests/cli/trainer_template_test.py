#!/usr/bin/env python3
"""Runs the Trainer program that `accelerate init` writes on data that it must refuse in words, and on rows of every number.

usage: trainer_template_test.py PROGRAM
"""
import pathlib
import subprocess
import sys
import tempfile


def table(rows):
    return "x,y,kind\n" + "".join(f"{x},{y},{kind}\n" for x, y, kind in rows)


GOOD = [(i, i * i % 7, "ab"[i % 2]) for i in range(22)]
# name: (the CSV file, what it is refused with; None where it trains)
FILES = {
    "infinity": (table(GOOD[:9] + [(1, "inf", "a")]), "row 9 of the data, counted from 0, has inf in the column 'y'"),
    "too large for float32": (table(GOOD[:9] + [("1e39", 1, "a")]), "in the column 'x'. Allowed are finite numbers"),
    "a missing number": (table(GOOD[:9] + [("", 1, "a")]), "row 9 of the data, counted from 0, has no number in the column 'x'"),
    "nan": (table([("nan", 1, "b")] + GOOD), "row 0 of the data, counted from 0, has no number in the column 'x'"),
    "one answer": (table([(x, y, "a") for x, y, _ in GOOD]), "has one answer in all rows, 'a'; a classifier needs two or more"),
    "two rows": (table(GOOD[:2]), "has 2 rows; needed are 5 or more"),
    "semicolons": (table(GOOD).replace(",", ";"), "give it as .csv.delimiter"),
    "as few as allowed": (table(GOOD[:5]), None),
    "a last batch of one row": (table(GOOD), None),  # 17 - 16
    "a column of one value": (table([(x, 5, kind) for x, _, kind in GOOD]), None),
}


def fault_of(program, folder, text, wanted):
    file = folder / "data.csv"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([program, "--data", str(file), "--num_train_epochs", "1", "--save_strategy", "no", "--load_best_model_at_end", "false",
                           "--output_dir", str(folder / "run")], capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    if wanted is None:
        return "" if done.returncode == 0 and "nan" not in said else said
    return "" if done.returncode == 1 and wanted in said else said


def main():
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, wanted) in FILES.items():
            if said := fault_of(sys.argv[1], pathlib.Path(folder), text, wanted):
                faults += 1
                print(f"{name}: expected {wanted or 'a training'!r}, got:\n{said[-1500:]}")
    print(f"{len(FILES) - faults} of {len(FILES)} as expected")
    sys.exit(faults > 0)


main()
