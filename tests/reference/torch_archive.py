#!/usr/bin/env python3
"""Writes torch_archive/*.pt and torch_archive.json beside itself: files of the real torch.save, and what they hold.

Usage: torch_archive.py [seed] [folder instead of the one beside this script]
Each file is small. The .json describes every value: tensors by type, shape and the bytes of their contiguous copy.
"""
import collections
import json
import pathlib
import random
import sys
from typing import Dict, List, Optional

import numpy as np
import torch

OUTPUT = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent) / "torch_archive"
NAMES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.uint16: "U16",
         torch.uint32: "U32", torch.uint64: "U64", torch.bool: "BOOL", torch.complex64: "C64",
         torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
         torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0"}


def tensor_row(tensor):
    flat = tensor.detach().clone(memory_format=torch.contiguous_format)
    raw = flat.reshape(-1).view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return ["tensor", NAMES[tensor.dtype], list(tensor.shape), list(tensor.stride()), raw.hex(),
            isinstance(tensor, torch.nn.Parameter), tensor.requires_grad]


class Scripted(torch.nn.Module):
    """Attributes of every kind that TorchScript writes; two weights are one, a buffer is not contiguous."""
    names: List[str]
    scales: Dict[str, float]
    none: Optional[int]

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(3, 2, bias=False).half()])
        self.b.weight = self.a.weight
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())
        self.sizes, self.rates, self.flags, self.tensors = [1, 2], [0.5], [True], [torch.ones(2)]
        self.names, self.scales, self.none, self.where = ["x"], {"y": 1.5}, None, torch.device("cpu")

    def forward(self, x):
        if self.sizes[0] > 0 and self.rates[0] > 0 and self.flags[0] and self.names[0] == "x" and self.none is None:
            x = x + self.tensors[0].sum() * self.scales["y"] + self.turned.sum().to(self.where)
        return self.norm(self.b(self.a(x)))


def script_row(module):
    """The state dict: attributes that are neither tensors nor modules are not described."""
    state = module.state_dict(keep_vars=True)
    return ["module", [[name, tensor_row(state[name].detach().requires_grad_(state[name].requires_grad))]
                       for name in sorted(state)]]


def row(value):
    """The value as lists that name their kinds, as the test rebuilds them."""
    kinds = {torch.Tensor: tensor_row, torch.nn.Parameter: tensor_row,
             bool: lambda v: ["bool", v], type(None): lambda v: ["none"],
             int: lambda v: ["int", v] if -2**63 <= v < 2**63 else
             ["big", v.to_bytes(v.bit_length() // 8 + 1, "little", signed=True).hex()],
             float: lambda v: ["float", v.hex()], str: lambda v: ["text", v], bytes: lambda v: ["bytes", v.hex()],
             list: lambda v: ["list", [row(i) for i in v]], tuple: lambda v: ["tuple", [row(i) for i in v]],
             set: lambda v: ["set", [row(i) for i in v]], torch.Size: lambda v: ["size", list(v)],
             torch.jit.RecursiveScriptModule: script_row,
             torch.dtype: lambda v: ["dtype", str(v).removeprefix("torch.")], torch.device: lambda v: ["device", str(v)],
             np.ndarray: lambda v: ["array", v.dtype.str, list(v.shape), not v.flags.c_contiguous, v.tobytes("A").hex()],
             np.float64: lambda v: ["float", float(v).hex()], np.float32: lambda v: ["float", float(v).hex()],
             np.int64: lambda v: ["int", int(v)], np.uint8: lambda v: ["int", int(v)], np.bool_: lambda v: ["bool", bool(v)]}
    if isinstance(value, dict):
        return ["dict", [[row(k), row(v)] for k, v in value.items()]]
    return kinds[type(value)](value)


def trained():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / 10)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler


def random_states(seed):
    """What Accelerate's random_states_0.pkl holds."""
    random.seed(seed)
    np.random.seed(seed)
    return {"step": 3, "random_state": random.getstate(), "numpy_random_seed": np.random.get_state(),
            "torch_manual_seed": torch.get_rng_state()[:64].clone(), "torch_cuda_manual_seed": [torch.arange(16, dtype=torch.uint8)]}


def bytes_of(dtype, count):
    size = count * dtype.itemsize
    return torch.randint(0, 2 if dtype == torch.bool else 120, (size,), dtype=torch.uint8).view(dtype)


def values(seed):
    model, optimizer, scheduler = trained()
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    numbers = [0, 1, 255, 256, 65535, 65536, -1, -128, 2**31 - 1, -2**31, 2**31, 2**63 - 1, -2**63, 2**63, 2**100, -2**100]
    deep = 1
    for _ in range(50):
        deep = [deep]
    return {
        "module_state": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "sgd": torch.optim.SGD(model.parameters(), 0.1).state_dict(), "random_states": random_states(seed),
        "dtypes": {str(d): bytes_of(d, 6).reshape(2, 3) for d in NAMES},
        "views": {"whole": base, "transposed": base.t(), "column": base[:, 2], "block": base[1:3, 2:5],
                  "expanded": base[0].expand(3, 6), "step": base[::2, ::3], "scalar": base[3, 5], "empty": base[:0],
                  "zero_strides": torch.zeros(1).expand(2, 2, 2)},
        "parameters": [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False),
                       torch.ones(1, requires_grad=True)],
        "numbers": numbers, "reals": [0.0, -0.0, 1.5, 1e300, 5e-324, float("inf"), float("-inf")],
        "texts": ["", "a", "é漢😀", "x" * 300, "\x00\n"], "bytes": [b"", b"\x00\xff\x80", bytes(range(256))],
        "containers": [None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, {1}, {"a": 1, 2: [3], None: None},
                       collections.OrderedDict(a=1, b=collections.OrderedDict()), collections.Counter("aab"), [[[]]], deep],
        "torch_objects": [torch.Size([2, 3]), torch.Size([]), torch.float32, torch.bfloat16, torch.device("cpu"), torch.device("cuda", 1)],
        "numpy": [np.arange(4, dtype=np.uint32), np.zeros((2, 3)), np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
                  np.array([True, False]), np.float64(1.5), np.float32(0.1), np.int64(-7), np.uint8(200), np.bool_(True), np.array(3.0)],
        "one_tensor": base, "none": None,
    }


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 20260131
    torch.manual_seed(seed)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    described = {}
    for name, value in values(seed).items():
        torch.save(value, OUTPUT / f"{name}.pt")
        described[name] = row(value)
    for protocol in (3, 4, 5):
        value = {"w": torch.arange(3.0), "b": b"\x00\xff", "s": {1, 2}, "t": "é" * 300, "l": [1, 2], "d": {"k": (1,)}}
        torch.save(value, OUTPUT / f"protocol_{protocol}.pt", pickle_protocol=protocol)
        described[f"protocol_{protocol}"] = row(value)
    torch.save({"w": torch.ones(2)}, OUTPUT / "refused_legacy.pt", _use_new_zipfile_serialization=False)
    script = torch.jit.script(Scripted())
    torch.jit.save(script, str(OUTPUT / "script.pt"))
    described["script"] = row(script)
    refused = {"refused_module": torch.nn.Linear(2, 2), "refused_conj": torch.zeros(2, dtype=torch.complex64).conj(),
               "refused_complex128": torch.zeros(2, dtype=torch.complex128), "refused_sparse": torch.eye(2).to_sparse(),
               "refused_quantized": torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
               "refused_class": pathlib.PurePosixPath("x"), "refused_function": print, "refused_slice": slice(1, 2),
               "refused_objects": np.array([None]), "refused_big_endian": np.arange(2, dtype=">u4"),
               "refused_frozenset": frozenset([1])}
    for name, value in refused.items():
        torch.save(value, OUTPUT / f"{name}.pt")
    text = "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in described.items()) + "\n}\n"
    OUTPUT.with_suffix(".json").write_text(text, encoding="utf-8")
    print(f"{len(described)} files described, {len(refused) + 1} refused")


if __name__ == "__main__":
    main()
