#!/usr/bin/env python3
"""Exchanges weights with the C++ tests through Python Accelerate. usage: weights_live.py read|write FOLDER

write: saves the model four times, as Accelerate does: FOLDER/safetensors, FOLDER/safetensors_shards, FOLDER/bin,
FOLDER/bin_shards.
read: loads each folder in FOLDER with accelerate.load_checkpoint_in_model and compares it with the model.
"""
import pathlib
import sys

import torch
from accelerate import Accelerator, load_checkpoint_in_model


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(10, 10), torch.nn.Linear(10, 40)
        self.c, self.d = torch.nn.Linear(40, 10), torch.nn.Linear(10, 10)
        self.norm = torch.nn.BatchNorm1d(10)
        self.d.weight = self.a.weight


def filled():
    """Entry k of the state dict is 1000 k, 1000 k + 1, …, as the C++ tests have it; a tied weight counts once."""
    net = Net()
    with torch.no_grad():
        seen = set()
        for tensor in net.state_dict(keep_vars=True).values():
            if tensor.data_ptr() not in seen:
                tensor.copy_((torch.arange(tensor.numel()) + 1000 * len(seen)).view_as(tensor))
            seen.add(tensor.data_ptr())
    return net


def write(folder):
    for name, size, safe in (("safetensors", "1GB", True), ("safetensors_shards", "0.5KB", True), ("bin", "1GB", False),
                             ("bin_shards", "0.5KB", False)):
        Accelerator(cpu=True).save_model(filled(), folder / name, max_shard_size=size, safe_serialization=safe)


def read(folder):
    expected = filled().state_dict()
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    for path in folders:
        net = Net()
        load_checkpoint_in_model(net, path)  # not strict: it misses the second name of the tied weight
        for name, tensor in net.state_dict().items():
            assert torch.equal(tensor, expected[name]), f"{path.name}: {name}"
    print(f"{len(folders)} folders")


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](pathlib.Path(sys.argv[2]))
