#!/usr/bin/env python3
"""Runs every command of the pages.

usage: commands_test.py BUILD_FOLDER
Takes the lines of ```sh, ```bash and plain blocks of README.md and docs/. Commands of `accelerate` run in the order of their
page, in a folder that has what the pages presume. Commands that need a network must get as far as the network. Of scripts
and examples, the file must exist: their own tests run them.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT_S = 60
HUB_IS_AWAY = "http://127.0.0.1:9"  # The port "discard", where nobody listens.
ACCELERATE = re.compile(r"(?:^|\| |<\(|HF_TOKEN=\S+ )accelerate [a-z]")
# Parts that need another shell, a pager, a compiler or a terminal, and what runs instead.
LEFT_OUT = (("source <(accelerate completion zsh)", "accelerate completion zsh"), (" | source", ""), (" | man -l -", ""),
            (" && cd spirals", ""), ("build/train", "../train"), ("cache rm", "cache rm --yes"),
            # A training writes such a checkpoint; tests/checkpoint converts one.
            ("convert-state checkpoints/checkpoint_3 for_python", "convert-state --help"),
            ("convert-state checkpoints/checkpoint_3 for_deepspeed --to universal", "convert-state --help"),
            ("convert-state run/checkpoint-500 python_run/checkpoint-500 --to universal", "convert-state --help"))
# What questions get: Enter takes what is proposed.
KEYS = {"accelerate config": "\n" * 60, "accelerate hub login": "hf_" + "x" * 34 + "\n"}
NEEDS_NETWORK = ("HF_ENDPOINT=", "accelerate hub download", "accelerate hub upload", "accelerate hub login")


def pages():
    """All but the Chinese pages, whose commands are the same (tools/check_translations.py)."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted(page for page in docs.rglob("*.md") if docs / "zh" not in page.parents)]


def commands():
    """Place and text of each line of a block of commands."""
    for page in pages():
        language = None  # Outside of a block.
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```"):
                language = line[3:] if language is None else None
            elif language in ("sh", "bash", "") and line.strip():
                yield f"{page.relative_to(ROOT)}:{number}", re.split(r"\s+#\s", line)[0].strip()


def write_weights(folder):
    """Every file of weights that the pages convert or merge."""
    tensors = {"a": torch.ones(3), "b": torch.zeros(2, 2)}
    torch.save(tensors, folder / "pytorch_model.bin")
    torch.save({"state_dict": tensors}, folder / "epoch3.ckpt")
    index = {"metadata": {"total_size": 28}, "weight_map": dict.fromkeys(tensors, "pytorch_model.bin")}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    for place in ("checkpoints/checkpoint_3/model", "dcp_shards/shard-00001-model-00001-of-00001"):
        path = folder / f"{place}.safetensors"
        path.parent.mkdir(parents=True)
        save_file(tensors, path)


def write_run_log(folder):
    page = (ROOT / "docs/formats/run_log.md").read_text(encoding="utf-8")
    folder.mkdir(parents=True)
    events = [line for line in page.splitlines() if line.startswith('{"event":')]
    (folder / "run_log.jsonl").write_text("\n".join(events) + "\n")


def write_flight_record(file):
    """The record of a rank that waits in the first barrier of two ranks."""
    header = struct.pack("<8sIIIIQqQIIQ64s", b"ACCFLT01", 128, 1, 0, 2, 1234, 0, 1, 1, 0, 0, b"node")
    group = struct.pack("<II40s80s", 0, 2, b"world", b"0, 1")
    slot = struct.pack("<QBBBBB3xQQqqqIi4q32s", 1, 2, 9, 255, 0, 0, 1, 0, 1, 1, 0, 7, -1, 0, 0, 0, 0, b"")
    file.parent.mkdir()
    file.write_bytes((header + group).ljust(4096, b"\0") + slot)


def write_hub_cache(hub):
    """A model in the hub's cache, of one empty file."""
    commit = "0" * 40
    model = hub / "models--google-bert--bert-base-cased"
    (model / "refs").mkdir(parents=True)
    (model / "refs/main").write_text(commit)
    (model / "snapshots" / commit).mkdir(parents=True)
    (model / "snapshots" / commit / "config.json").write_text("{}")


def write_what_pages_presume(folder):
    train = folder / "train"
    train.write_text("#!/bin/sh\nexit 0\n")
    train.chmod(0o755)
    (folder / "train.py").write_text("pass\n")
    (folder / "hosts").write_text("node1 slots=4\nnode2 slots=4\n")
    for name in ("mpirun", "ssh"):  # What starts other machines; tests/launch/machines has the real ones.
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / "bin" / name).chmod(0o755)
    shutil.copy(ROOT / "examples/fsdp/fsdp.yaml", folder)
    page = (ROOT / "docs/deepspeed.md").read_text(encoding="utf-8")
    (folder / "zero3.json").write_text(page.split("```json\n")[1].split("```")[0])
    write_weights(folder)
    write_run_log(folder / "runs/bert")
    write_flight_record(folder / "hang/rank_0.flight")


def run(command, folder, home):
    keys = next((keys for start, keys in KEYS.items() if command.startswith(start)), "")
    for words, others in LEFT_OUT:
        command = command.replace(words, others)
    env = {**os.environ, "HOME": str(home), "HF_HOME": str(home / "hf"), "HF_ENDPOINT": HUB_IS_AWAY, "TERM": "dumb",
           "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    env.pop("CI", None)
    return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=env, input=keys, capture_output=True,
                          text=True, timeout=LIMIT_S)


def fault_of(command, result):
    """Why the result is not what the page promises; empty if it is."""
    if command.startswith(NEEDS_NETWORK):
        reached = result.returncode in (0, 1) and "127.0.0.1" in result.stderr
        return "" if reached else f"did not get as far as the network: {result.returncode} {result.stderr}"
    return "" if result.returncode == 0 else f"exit code {result.returncode}: {result.stderr}"


def missing(command, build):
    """Why a program of this tree that a page names is not there; empty for other programs."""
    program = command.split()[0]
    if not program.startswith(("scripts/", "tools/", "benchmarks/", "build/dev/")):
        return ""
    path = build / program.removeprefix("build/dev/") if program.startswith("build/dev/") else ROOT / program
    return "" if path.exists() else f"{path} does not exist"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    os.environ["PATH"] = f"{build}/bin:{os.environ['PATH']}"
    ran, faults = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = pathlib.Path(scratch) / "work", pathlib.Path(scratch) / "home"
        folder.mkdir()
        home.mkdir()
        write_what_pages_presume(folder)
        write_hub_cache(home / "hf/hub")
        machines = []  # The machines of one job, which wait for each other.
        for place, command in commands():
            if "--machine_rank" in command:
                machines.append((place, command))
            elif "--rdzv_backend c10d" in command:  # The same line on each machine.
                own = command.replace("accelerate launch", "accelerate launch --main_process_port 29501 --rdzv_conf last_call_timeout=0.1")
                machines += [(place, own), (place, own)]
            elif ACCELERATE.search(command):
                ran += 1
                inside = folder / "spirals" if "accelerate.yaml" in command else folder
                fault = fault_of(command, run(command, inside, home))
            else:
                fault = missing(command, build)
            if fault:
                faults.append(f"{place}: {command}\n  {fault}")
                fault = ""
        with concurrent.futures.ThreadPoolExecutor() as together:
            results = together.map(lambda one: run(one[1].replace("10.0.0.1", "127.0.0.1"), folder, home), machines)
            for (place, command), result in zip(machines, results):
                ran += 1
                if fault := fault_of(command, result):
                    faults.append(f"{place}: {command}\n  {fault}")
    print("\n".join(faults))
    print(f"{ran} commands run, {len(faults)} faults")
    return 1 if faults or ran < 25 else 0


if __name__ == "__main__":
    sys.exit(main())
