#!/usr/bin/env python3
"""Reads every *.safetensors in a folder with the reference package, writes it again and compares the bytes.

Usage: safetensors_live.py FOLDER
"""
import ctypes
import pathlib
import sys

from safetensors import TensorSpec, deserialize, safe_open, serialize

PYTHON_NAMES = {"BOOL": "bool", "F4": "float4_e2m1fn_x2", "U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2",
                "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
                "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16", "U16": "uint16", "F16": "float16",
                "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64",
                "F64": "float64", "I64": "int64", "U64": "uint64"}


def spec(info, keep_alive):
    data = bytes(info["data"])
    keep_alive.append(ctypes.create_string_buffer(data, max(len(data), 1)))
    shape = list(info["shape"])
    if info["dtype"] == "F4":  # Given as pairs in a byte.
        shape[-1] //= 2
    return TensorSpec(dtype=PYTHON_NAMES[info["dtype"]], shape=shape, data_ptr=ctypes.addressof(keep_alive[-1]),
                      data_len=len(data))


def differs(path):
    original = path.read_bytes()
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    keep_alive = []
    again = serialize({name: spec(info, keep_alive) for name, info in deserialize(original)}, metadata)
    return bytes(again) != original


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
    different = [path.name for path in paths if differs(path)]
    for name in different:
        print(f"{name} differs", file=sys.stderr)
    print(f"{len(paths)} files written again, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
