#!/usr/bin/env python3
"""Asks this library what datasets_live.py asked Python `datasets`, and compares the answers.

usage: datasets_golden.py PROBE [FILE]

FILE: questions and answers (tests/reference/datasets_golden.json; dataset_files.json has hand-written files). Exits 1 and prints the first differences.
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def rows_of(answer, request):
    """The rows of all passes of a stream, one pass behind the other."""
    return [row for one in answer for row in one] if "stream" in request and isinstance(answer, list) else answer


def main():
    file = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent / "datasets_golden.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        probe = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number, question in enumerate(questions):
            request, want = dict(question["request"]), question["want"]
            if question["file"] is not None:
                path = folder / str(number)
                path.write_bytes(question["file"].encode())
                request |= {"files": [str(path)], "cache": str(folder / "cache")}
            probe.stdin.write(json.dumps(request) + "\n")
            probe.stdin.flush()
            answer = rows_of(json.loads(probe.stdout.readline()), request)
            is_refused = isinstance(answer, dict) and "error" in answer
            if is_refused if want is None else json.dumps(want) == json.dumps(answer):
                continue
            faults += 1
            if faults <= 5:
                print(f"{request}\n  theirs {want}\n  ours   {answer}"[:2000])
        probe.stdin.close()
        probe.wait()
    print(f"{len(questions)} answers compared, {faults} differ")
    return 1 if faults or not questions else 0


if __name__ == "__main__":
    sys.exit(main())
