#!/usr/bin/env python3
"""Checks that includes point one way: a folder may include itself and the folders above it in LAYERS.

Exits 1 and names each offending line. With --list prints the layers, one a line.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ["base", "formats", "config", "launch", "tensor", "comm", "state", "data", "precision", "parallel",
          "optim", "checkpoint", "big_model", "tracking", "accelerator", "datasets", "tokenizers", "models",
          "trainer"]
# These folders build without LibTorch, so that the command line starts in milliseconds.
WITHOUT_LIBTORCH = {"base", "formats", "config", "launch"}
# Inside parallel/: gradients/ serves the others, which do not know each other.
PARALLEL = {"gradients": set(), "replicated": {"gradients"}, "sharded": {"gradients"}, "tensor": {"gradients"},
            "pipeline": {"gradients"}, "checkpointing": set()}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def layer_of(parts):
    """The layer of accelerate/<layer>/…; None for the front door accelerate/accelerate.h."""
    return parts[1] if len(parts) > 2 else None


def faults_of(path):
    own = path.relative_to(ROOT).parts
    layer = layer_of(own)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        where = f"{path.relative_to(ROOT)}:{number}"
        if layer in WITHOUT_LIBTORCH and re.match(r"(torch|ATen|c10|caffe2)/", name):
            yield f"{where}: {layer}/ builds without LibTorch but includes {name}"
        target = tuple(name.split("/"))
        if target[0] in ("cli", "tests", "examples", "benchmarks"):
            yield f"{where}: the library includes {name}"
        if target[0] != "accelerate":
            continue
        other = layer_of(target)
        if not (ROOT / name).exists():
            yield f"{where}: {name} does not exist"
        elif other is None and layer is not None:
            yield f"{where}: {name} is the front door, for users only"
        elif other is not None and layer is not None:
            if other not in LAYERS:
                yield f"{where}: {other}/ is not a layer"
            elif LAYERS.index(other) > LAYERS.index(layer):
                yield f"{where}: {layer}/ may not include {other}/, which lies below it"
            elif layer == other == "parallel" and own[2] != target[2] and target[2] not in PARALLEL[own[2]]:
                yield f"{where}: parallel/{own[2]} may not include parallel/{target[2]}"


def main():
    if "--list" in sys.argv:
        print("\n".join(LAYERS))
        return 0
    files = [p for e in ("*.h", "*.cpp") for p in sorted((ROOT / "accelerate").rglob(e))
             if "gloo_headers" not in p.parts]
    faults = []
    for path in files:
        parts = path.relative_to(ROOT).parts
        if len(parts) > 2 and parts[1] not in LAYERS:
            faults.append(f"{path.relative_to(ROOT)}: {parts[1]}/ is not in LAYERS of tools/check_layers.py")
            continue
        faults.extend(faults_of(path))
    for fault in faults:
        print(fault)
    print(f"{len(files)} files checked, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
