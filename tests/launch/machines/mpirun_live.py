#!/usr/bin/env python3
"""Compares how Python's launcher and ours call mpirun: words and variables.

usage: mpirun_live.py ACCELERATE

A script in PATH stands for mpirun; it says that it is Open MPI, or Intel's.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

if importlib.util.find_spec("accelerate") is None:
    print("there is no accelerate in this environment")
    sys.exit(77)

VERSIONS = ("mpirun (Open MPI) 4.1.4", "Intel(R) MPI Library for Linux* OS, Version 2021.9")
FLAGS = ["--cpu", "--num_processes", "8", "--num_machines", "2", "--mpirun_hostfile", "hosts", "--main_process_ip", "10.0.0.1",
         "--main_process_port", "29511", "--mixed_precision", "bf16", "--num_cpu_threads_per_process", "3"]
# Those that concern MPI's ranks; tests/launch/protocol_test.cpp compares the others.
VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION", "OMP_NUM_THREADS", "KMP_BLOCKTIME")


def start(folder, version, launcher):
    """Starts a launcher whose mpirun writes its words and its environment into `folder`."""
    (folder / "bin").mkdir(parents=True)
    mpirun = folder / "bin/mpirun"
    mpirun.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n'
                      f'printf "%s\\n" "$@" > {folder}/words\nenv > {folder}/environment\n')
    mpirun.chmod(0o755)
    (folder / "train.py").write_text("")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_", "ACCELERATE_"))}
    return subprocess.Popen([*launcher, "launch", *FLAGS, "train.py", "--epochs", "3"], cwd=folder,
                            env=plain | {"PATH": f"{folder}/bin:{plain['PATH']}", "HOME": str(folder)}, stderr=subprocess.PIPE)


def told(folder):
    words = (folder / "words").read_text().splitlines()
    mpi = words[:next(i for i, word in enumerate(words) if "python" in word)]
    variables = dict(line.split("=", 1) for line in (folder / "environment").read_text().splitlines() if "=" in line)
    return mpi, words[-3:], {name: variables.get(name) for name in VARIABLES}


def main():
    theirs = [sys.executable, "-W", "ignore", "-m", "accelerate.commands.accelerate_cli"]
    with tempfile.TemporaryDirectory() as scratch:
        jobs = []
        for number, version in enumerate(VERSIONS):
            for name, launcher in (("theirs", theirs), ("ours", [str(pathlib.Path(sys.argv[1]).resolve())])):
                folder = pathlib.Path(scratch) / f"{name}{number}"
                jobs.append((folder, start(folder, version, launcher)))
        for folder, process in jobs:
            _, errors = process.communicate(timeout=240)
            if process.returncode != 0:
                sys.exit(f"{folder.name}: {errors.decode()}")
        for number, version in enumerate(VERSIONS):
            expected, found = (told(pathlib.Path(scratch) / f"{name}{number}") for name in ("theirs", "ours"))
            forwarded = [word for word in found[0][len(expected[0]):] if word != "-x"]
            if "Open MPI" in version and not {"MASTER_ADDR", "MASTER_PORT", "ACCELERATE_JOB_TOKEN"} <= set(forwarded):
                sys.exit(f"{version}: not all variables go to other hosts: {forwarded}")
            if (found[0][:len(expected[0])], *found[1:]) != expected:
                sys.exit(f"{version}: expected {expected}, found {found}")
    print(f"{len(VERSIONS)} kinds of mpirun are called alike")


if __name__ == "__main__":
    main()
