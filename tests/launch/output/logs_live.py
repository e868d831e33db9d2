#!/usr/bin/env python3
"""Compares the files and lines that ranks leave under `accelerate launch` with those under torchrun.

usage: logs_live.py ACCELERATE FAILING_PROBE

The same programs run under both, with the same flags. The trees of files, their bytes, and the lines on standard output and
error must be equal, but for the part of a folder's name that is left to chance. Then a Python program fails under both, and
torchrun reads the error file of a native program.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, error_handler
except ImportError:
    print("there is no torch in this environment")
    sys.exit(77)

SPEAK = """#!/bin/sh
echo "out $RANK of $WORLD_SIZE"
echo "err $RANK" >&2
printf 'umlaut \\303\\244\\r\\n'
"""
FAIL = """
import importlib.util, os, sys, time
if os.environ["RANK"] == "0":
    time.sleep(60)
spec = importlib.util.spec_from_file_location("error_handler", sys.argv[1])  # Without torch, which takes seconds.
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    raise ValueError("no such class: \\u00e4")
except ValueError as error:  # What the decorator `record` does.
    module.ErrorHandler().record_exception(error)
    raise
"""
CASES = ([], ["--tee", "3"], ["-r", "3"], ["--tee", "0:1,1:2"], ["--redirects", "0:2,1:1", "--role", "actor"],
         ["--tee", "1", "--redirects", "2"], ["--tee", "3", "--local_ranks_filter", "1"], ["--local_ranks_filter", "0"])
TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"


def under_torchrun(flags, words, folder):
    """Runs in this process, because an import of torch takes seconds. Returns the failure, if there is one."""
    kept = [os.dup(fd) for fd in (1, 2)]
    for fd, name in ((1, "out"), (2, "err")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, fd)
        os.close(file)
    try:
        torchrun.main(["--nproc-per-node", "2", "--rdzv-backend", "static", "--master-port", "0", "--no-python", "--log-dir",
                       str(folder / "logs"), *flags, *words])
    except ChildFailedError as error:
        return error
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, copy in zip((1, 2), kept):
            os.dup2(copy, fd)
            os.close(copy)


def under_ours(command, flags, words, folder):
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        return subprocess.run([command, "launch", "--cpu", "--num_processes", "2", "--log_dir", str(folder / "logs"), *flags,
                               *words], stdout=out, stderr=err, timeout=60, check=False).returncode


def tree(folder):
    """Every file and folder of the logs, with the bytes of files."""
    found = {}
    for path in sorted((folder / "logs").rglob("*")):
        name = re.sub(r"^none_[^/]+", "none_?", str(path.relative_to(folder / "logs")))
        found[name] = path.read_bytes() if path.is_file() else None
    return found


def spoken(folder):
    """The lines of the ranks; launchers have words of their own."""
    return [sorted(line for line in (folder / name).read_bytes().split(b"\n") if re.search(rb"(out|err) \d|umlaut", line))
            for name in ("out", "err")]


def compare(command, root, flags, template=None):
    words = [str(root / "speak.sh")]
    os.environ.pop(TEMPLATE, None)
    if template:
        os.environ[TEMPLATE] = template
    both = []
    for who in ("theirs", "ours"):
        folder = pathlib.Path(tempfile.mkdtemp(dir=root, prefix=who))
        failed = under_torchrun(flags, words, folder) if who == "theirs" else under_ours(command, flags, words, folder)
        if failed:
            sys.exit(f"{flags}: {who} failed: {failed}")
        both.append((tree(folder), spoken(folder)))
    if both[0] != both[1]:
        sys.exit(f"{flags}, {template}:\ntheirs {both[0]}\nours   {both[1]}")
    return len(both[0][0])


def without_time(text):
    value = json.loads(text)
    del value["message"]["extraInfo"]["timestamp"]
    return value


def compare_errors(command, root):
    (root / "fail.py").write_text(FAIL)
    words = [sys.executable, str(root / "fail.py"), error_handler.__file__]
    files = []
    for who in ("theirs", "ours"):
        folder = pathlib.Path(tempfile.mkdtemp(dir=root, prefix=who))
        if not (under_torchrun([], words, folder) if who == "theirs" else under_ours(command, [], words, folder)):
            sys.exit(f"{who}: the program did not fail")
        files.append({name: text and without_time(text) for name, text in tree(folder).items()})
    if files[0] != files[1] or "none_?/attempt_0/1/error.json" not in files[0]:
        sys.exit(f"error files:\ntheirs {files[0]}\nours   {files[1]}")
    said = (folder / "err").read_text()
    if not re.search(r"rank 1 .* exited with code 1 after .* s: ValueError: no such class: ä\n", said):
        sys.exit(f"our report of a Python program: {said}")


def read_ours(probe, root):
    folder = pathlib.Path(tempfile.mkdtemp(dir=root))
    error = under_torchrun([], [probe, "nested", "no row: ä"], folder)
    message = error.failures[1].message
    if message["message"] != "ConfigError: no row: ä\n  because: line 3 is empty":
        sys.exit(f"torchrun reads of a native program: {message}")
    if "traceback : ConfigError: no row: ä" not in str(error):
        sys.exit(f"torchrun says of a native program: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("accelerate")
    parser.add_argument("failing_probe")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "speak.sh").write_text(SPEAK)
        (root / "speak.sh").chmod(0o755)
        entries = sum(compare(arguments.accelerate, root, flags) for flags in CASES)
        entries += compare(arguments.accelerate, root, ["--tee", "1"], "<$rank ${local_rank} ${other}> ")
        compare_errors(arguments.accelerate, root)
        read_ours(arguments.failing_probe, root)
    print(f"{len(CASES) + 1} launches leave the same {entries} files, folders and lines; errors are read both ways")


if __name__ == "__main__":
    main()
