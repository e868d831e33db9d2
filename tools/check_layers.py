#!/usr/bin/env python3
"""Checks that includes point one way: a room may include itself and the rooms above it in ROOMS.

Also: folders of a room keep the order of FOLDERS, files include one another in one direction only, what builds without
LibTorch includes none of it, no header includes the dear ones of it, every header is guarded, and the command line leans
only on what needs no LibTorch.

usage: check_layers.py [--list] [ROOT]

Exits 1 and names each offending line. With --list prints the rooms, one a line.
"""
import graphlib
import pathlib
import re
import sys

ARGUMENTS = [a for a in sys.argv[1:] if not a.startswith("--")]
ROOT = pathlib.Path(ARGUMENTS[0]).resolve() if ARGUMENTS else pathlib.Path(__file__).resolve().parent.parent
ROOMS = ["base", "formats", "launch", "tensor", "comm", "data", "parallel", "optim", "checkpoint", "watch", "accelerator",
         "transformers"]
# These folders build without LibTorch, so that the command line starts in milliseconds. They include one another alone.
WITHOUT_LIBTORCH = {"base", "formats", "launch", "watch/run_log", "watch/page", "watch/terminal", "transformers/hub",
                    "transformers/tokenizers"}
# What a folder of a room may include besides itself and the files that lie in the room itself.
FOLDERS = {
    "base": {"terminal": set(), "machine": set(), "http": set()},
    "formats": {"documents": set(), "safetensors": {"documents"}, "torch_archive": {"safetensors"},
                "weights": {"documents", "safetensors", "torch_archive"},
                "shards": {"documents", "safetensors", "torch_archive", "weights"}, "tensorboard": set(), "gguf": set()},
    "launch": {"config": set(), "machines": {"config"}, "output": set()},
    "tensor": {"compat": set(), "construction": {"compat"}},
    "comm": {"shared_memory": set(), "state": set()},
    "parallel": {"gradients": set(), "replicated": {"gradients"}, "sharded": {"gradients", "offload"},
                 "recompute": {"sharded"}, "offload": set()},
    "optim": {"precision": set(), "algorithms": set(), "schedules": set()},
    "watch": {"run_log": set(), "page": {"run_log"}, "terminal": {"run_log"}, "trackers": set(), "profiler": set()},
    "accelerator": {"batch_size": set(), "graphs": set()},
    "transformers": {"hub": set(), "tokenizers": {"hub"}, "datasets": {"hub", "tokenizers"},
                     "models": {"hub", "tokenizers", "datasets"}, "trainer": {"hub", "tokenizers", "datasets", "models"}},
    "transformers/hub": {"cache": set(), "transfer": {"cache"}},
    "transformers/tokenizers": {
        "text": {"regex", "unicode"}, "unicode": set(), "regex": {"unicode"}, "normalizers": {"text", "unicode"},
        "pre_tokenizers": {"regex", "text", "unicode"}, "models": {"text", "unicode"}, "processors": {"text", "unicode"},
        "decoders": {"text", "unicode"}, "pretrained": {"text", "unicode"}},
    "transformers/models": {
        "config": set(), "layers": {"config"}, "architectures": {"config", "layers"}, "loading": {"config"},
        "saving": {"config"}, "generation": {"config", "layers", "architectures"}},
    "transformers/models/architectures": {"bert": set(), "encoders": set(), "decoders": set(), "encoder_decoders": set()},
    # What is asked, what is read, what is recorded, what is kept, and last the loop that uses them all.
    "transformers/trainer": {
        "arguments": set(), "metrics": set(), "data": {"arguments"}, "callbacks": {"arguments", "data"},
        "hub": {"arguments", "callbacks"}, "checkpoints": {"arguments", "data", "callbacks", "hub"},
        "loop": {"arguments", "metrics", "data", "callbacks", "checkpoints"}},
}
# The same of the command line. What is in with_libtorch/ is a program of its own.
CLI_FOLDERS = ["terminal", "torch_program", "reference", "questions", "estimate", "commands"]
LIBTORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
# These take 15 to 20 seconds to compile: for source files, never for a header that a user includes.
DEAR = {"torch/torch.h", "torch/all.h", "torch/extension.h", "torch/script.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(parts):
    """The room of accelerate/<room>/…; None for the front door accelerate/accelerate.h."""
    return parts[1] if len(parts) > 2 else None


def without_libtorch(parts):
    """The folder of WITHOUT_LIBTORCH in which a file lies, or None."""
    return next((f for f in sorted(WITHOUT_LIBTORCH) if "/".join(parts[1:]).startswith(f + "/")), None)


def includes_of(path):
    """Pairs of where, "path:line", and what is included there."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield f"{path.relative_to(ROOT)}:{number}", match.group(2)


def faults_of_header(path):
    if path.suffix != ".h":
        return
    if "#pragma once" not in path.read_text(encoding="utf-8"):
        yield f"{path.relative_to(ROOT)}: no #pragma once"
    for where, name in includes_of(path):
        if name in DEAR:
            yield f"{where}: a header includes {name}, which costs every user many seconds"


def folder_that_may_not(own, target):
    """The folders, of `own` and of `target`, whose order in FOLDERS forbids the include; None if nothing does."""
    depth = next((i for i, (a, b) in enumerate(zip(own, target)) if a != b), 0)
    folders = FOLDERS.get("/".join(own[1:depth]), {})
    a, b = own[depth], target[depth]
    return ("/".join(own[1:depth + 1]), "/".join(target[1:depth + 1])) if a in folders and b in folders and b not in folders[a] else None


def faults_of_order(own, target, where, name):
    """`own` and `target`: path parts of the file and of what it includes, both below accelerate/."""
    room, other, bare = room_of(own), room_of(target), without_libtorch(own)
    if not (ROOT / name).exists():
        yield f"{where}: {name} does not exist"
    elif room is None:
        return
    elif other is None:
        yield f"{where}: {name} is the front door, for users only"
    elif other not in ROOMS:
        yield f"{where}: {other}/ is not a room"
    elif ROOMS.index(other) > ROOMS.index(room):
        yield f"{where}: {room}/ may not include {other}/, which lies below it"
    elif room == other and (pair := folder_that_may_not(own, target)):
        yield f"{where}: {pair[0]} may not include {pair[1]}"
    elif bare and not without_libtorch(target):
        yield f"{where}: {bare}/ builds without LibTorch but includes {name}, which may include LibTorch"


def faults_of(path):
    own = path.relative_to(ROOT).parts
    room, bare = room_of(own), without_libtorch(own)
    if room is not None and room not in ROOMS:
        yield f"{path.relative_to(ROOT)}: {room}/ is not in ROOMS of tools/check_layers.py"
        return
    yield from faults_of_header(path)
    for where, name in includes_of(path):
        target = tuple(name.split("/"))
        if bare and LIBTORCH.match(name):
            yield f"{where}: {bare}/ builds without LibTorch but includes {name}"
        if target[0] in ("cli", "tests", "examples", "benchmarks"):
            yield f"{where}: the library includes {name}"
        if target[0] == "accelerate":
            yield from faults_of_order(own, target, where, name)


def faults_of_cli(path):
    own = path.relative_to(ROOT).parts
    if own[1] in ("with_libtorch", "project_template"):
        return
    for where, name in includes_of(path):
        target = tuple(name.split("/"))
        known = [folder for folder in CLI_FOLDERS if own[1] == folder or target[:2] == ("cli", folder)]
        if target[0] == "cli" and len(known) == 2 and own[1] == known[0]:
            yield f"{where}: {own[1]}/ may not include {target[1]}/"
        if LIBTORCH.match(name) or (target[0] == "accelerate" and not without_libtorch(target)):
            yield f"{where}: the command line starts without LibTorch but includes {name}"


def unit_of(name):
    """A header and its source are one unit, and so is the private half of it, `<name>_impl.h`."""
    return str(pathlib.PurePath(name).with_suffix("")).removesuffix("_impl")


def faults_of_circles(paths):
    """Units that include one another, directly or through others: each circle by one of its ways around."""
    units = {}
    for path in paths:
        own = unit_of(path.relative_to(ROOT))
        included = {unit_of(name) for _, name in includes_of(path) if (ROOT / name).exists()}
        units.setdefault(own, set()).update(included - {own})
    while True:
        try:
            graphlib.TopologicalSorter({unit: sorted(units[unit]) for unit in sorted(units)}).prepare()
            return
        except graphlib.CycleError as error:
            circle = list(reversed(error.args[1]))  # The sorter names what is included first.
            yield f"files include one another: {' -> '.join(circle)}; move what both need to a file of its own"
            units[circle[0]].discard(circle[1])


def sources(folder):
    return [p for e in ("*.h", "*.cpp") for p in sorted((ROOT / folder).rglob(e)) if "gloo_headers" not in p.parts]


def main():
    if "--list" in sys.argv:
        print("\n".join(ROOMS))
        return 0
    library, cli = sources("accelerate"), sources("cli")
    faults = [f for p in library for f in faults_of(p)] + [f for p in cli for f in faults_of_cli(p)]
    faults += faults_of_circles(library + cli)
    for fault in faults:
        print(fault)
    print(f"{len(library) + len(cli)} files checked, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
