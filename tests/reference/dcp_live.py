#!/usr/bin/env python3
"""Exchanges shards with the C++ tests through torch.distributed.checkpoint, in its Hugging Face layout.

usage: dcp_live.py write FOLDER | read FOLDER EXPECTED | golden

write: four processes save a state of sharded DTensors: FOLDER/shards holds their files, FOLDER/expected.safetensors the
whole tensors, FOLDER/consolidated/sharded and FOLDER/consolidated the same shards and what torch makes of them.
read: loads the shards in FOLDER with dcp.load, and consolidates them with torch; both must give the tensors of EXPECTED.
golden: writes dcp_shards.json beside this script: the files of `write` as hexadecimal digits.
"""
import json
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

WORLD = 4
SHAPES = {  # name: shape, dtype, placements on the line of four, or on the square of two by two
    "rows": ((6, 3), torch.float32, [Shard(0)]),  # two, two, two and no rows
    "columns": ((3, 8), torch.float32, [Shard(1)]),
    "uneven": ((7, 5), torch.bfloat16, [Shard(0)]),
    "tiles": ((6, 10), torch.float32, [Shard(0), Shard(1)]),
    "cubes": ((4, 6, 2), torch.float64, [Shard(1), Shard(2)]),
    "twice": ((9, 2), torch.float32, [Shard(0), Shard(0)]),
    "half": ((5, 4), torch.float16, [Replicate(), Shard(0)]),
    "copies": ((4,), torch.int64, [Replicate()]),
    "plain": ((2, 2), torch.float32, None),
    "scalar": ((), torch.float32, None),
}


def whole():
    tensors = {}
    for k, (name, (shape, dtype, _)) in enumerate(SHAPES.items()):
        count = int(torch.tensor(shape).prod()) if shape else 1
        tensors[name] = (torch.arange(count) + 100 * k).to(dtype).view(shape).contiguous()
    return tensors


def sharded():
    line, square = init_device_mesh("cpu", (WORLD,)), init_device_mesh("cpu", (2, 2))
    state = {}
    for name, tensor in whole().items():
        placements = SHAPES[name][2]
        mesh = square if placements and len(placements) == 2 else line
        state[name] = distribute_tensor(tensor, mesh, placements) if placements else tensor
    return state


def save(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}.meeting", rank=rank, world_size=WORLD)
    state = sharded()
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(path=f"{folder}/shards", save_distributed=True))
    floats = {n: t for n, t in state.items() if t.is_floating_point()}  # torch consolidates no others
    dcp.save(floats, storage_writer=HuggingFaceStorageWriter(
        path=f"{folder}/consolidated", save_distributed=True, enable_consolidation=True,
        fqn_to_index_mapping={name: 1 + i % 2 for i, name in enumerate(floats)}))
    dist.destroy_process_group()


def write(folder):
    folder.mkdir(exist_ok=True)
    torch.multiprocessing.spawn(save, (str(folder),), nprocs=WORLD)
    save_file(whole(), folder / "expected.safetensors")


def compare(found, expected, how):
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, f"{how}: {name} is {found[name].dtype}"
        assert torch.equal(found[name], tensor), f"{how}: {name} is {found[name]}, not {tensor}"


def read(folder, expected_file):
    expected = load_file(expected_file)
    state = {name: torch.zeros_like(tensor) for name, tensor in expected.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(path=str(folder)), no_dist=True)
    compare(state, expected, "dcp.load")
    # torch's own consolidation knows floating-point tensors of at least one dimension.
    fit = {n: t for n, t in expected.items() if t.is_floating_point() and t.dim() > 0 and t.numel() > 0}
    with tempfile.TemporaryDirectory() as out:
        consolidate_safetensors_files(str(folder), out, dict.fromkeys(fit, 1))
        compare(load_file(f"{out}/model-00001-of-00001.safetensors"), fit, "consolidated")
    print(f"{len(expected)} tensors, {len(fit)} consolidated")


def golden():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder)
        files = [folder / "expected.safetensors", *sorted((folder / "shards").iterdir())]
        rows = [{"file": file.name, "hex": file.read_bytes().hex()} for file in files]
    text = json.dumps({"torch": torch.__version__, "tensors": len(SHAPES), "files": rows}, indent=1)
    pathlib.Path(__file__).with_name("dcp_shards.json").write_text(text + "\n")


if __name__ == "__main__":
    arguments = [pathlib.Path(a) for a in sys.argv[2:]]
    {"write": write, "read": read, "golden": golden}[sys.argv[1]](*arguments)
