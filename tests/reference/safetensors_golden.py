#!/usr/bin/env python3
"""Writes safetensors_golden.json beside itself: what the reference safetensors package writes, and which headers it takes.

Usage: safetensors_golden.py [seed] [output]
"files": tensors and metadata, and the whole file that `safetensors.numpy.save` or `safetensors.torch.save`
made of them. Metadata has at most one key, since the reference writes several in random order.
"headers": a header, the number of data bytes behind it, and whether the reference reads the file.
"""
import json
import pathlib
import random
import struct
import sys

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError, deserialize

NUMPY = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "U64": np.uint64,
         "I32": np.int32, "U32": np.uint32, "I16": np.int16, "U16": np.uint16, "I8": np.int8, "U8": np.uint8,
         "BOOL": np.bool_, "C64": np.complex64}
TORCH = {"BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
         "F8_E8M0": torch.float8_e8m0fnu, "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
         "F8_E5M2FNUZ": torch.float8_e5m2fnuz, "F4": torch.float4_e2m1fn_x2, "F32": torch.float32,
         "F16": torch.float16, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32, "I16": torch.int16,
         "I8": torch.int8, "U8": torch.uint8, "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64,
         "BOOL": torch.bool, "C64": torch.complex64}


def raw_bytes(rng, dtype, count):
    return bytes(rng.randrange(2) if dtype == "BOOL" else rng.randrange(256) for _ in range(count))


def numpy_tensor(rng, dtype, shape):
    kind = np.dtype(NUMPY[dtype])
    raw = raw_bytes(rng, dtype, int(np.prod(shape, dtype=np.int64)) * kind.itemsize)
    return np.frombuffer(raw, dtype=kind).reshape(shape), raw, shape


def torch_tensor(rng, dtype, shape):
    kind = TORCH[dtype]
    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = raw_bytes(rng, dtype, count)
    tensor = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(kind) if raw else torch.empty(0, dtype=kind)
    logical = [*shape[:-1], shape[-1] * 2] if dtype == "F4" else shape
    return tensor.reshape(shape), raw, logical


def file_row(title, make, save, specs, metadata=None):
    tensors, listed = {}, []
    for name, (dtype, shape) in specs.items():
        tensors[name], raw, logical = make(dtype, shape)
        listed.append({"name": name, "dtype": dtype, "shape": list(logical), "bytes": raw.hex()})
    return {"title": title, "tensors": listed, "metadata": metadata or {},
            "file": save(tensors, metadata=metadata).hex()}


def random_specs(rng, dtypes):
    letters = "abz09._-/ \"\\\n\té漢😀\x7f\x01"
    specs = {}
    for _ in range(rng.randrange(9)):
        name = "".join(rng.choice(letters) for _ in range(rng.randrange(12)))
        specs[name] = (rng.choice(dtypes), [rng.randrange(4) for _ in range(rng.randrange(1, 5))])
    return specs


def file_rows(rng):
    in_numpy = (lambda dtype, shape: numpy_tensor(rng, dtype, shape)), safetensors.numpy.save
    in_torch = (lambda dtype, shape: torch_tensor(rng, dtype, shape)), safetensors.torch.save
    for dtype in NUMPY:
        yield file_row(f"numpy {dtype}", *in_numpy, {"x": (dtype, [2, 3])})
    for dtype in TORCH:
        yield file_row(f"torch {dtype}", *in_torch, {"x": (dtype, [2, 3])})
    mixed = list(NUMPY)
    rng.shuffle(mixed)
    yield file_row("every numpy dtype", *in_numpy, {f"t{i}": (d, [i]) for i, d in enumerate(mixed)})
    mixed = list(TORCH)
    rng.shuffle(mixed)
    yield file_row("every torch dtype", *in_torch, {f"t{i}": (d, [i]) for i, d in enumerate(mixed)})
    yield file_row("nothing", *in_numpy, {})
    yield file_row("metadata alone", *in_numpy, {}, {"format": "pt"})
    yield file_row("scalars", *in_numpy, {"b": ("F32", []), "a": ("F64", []), "c": ("BOOL", [])})
    yield file_row("empty dimensions", *in_numpy, {"a": ("F32", [0]), "b": ("F32", [2, 0, 3]), "c": ("F32", [1])})
    yield file_row("names in byte order", *in_numpy, {n: ("U8", [1]) for n in ["b", "B", "ä", "a10", "a2", "", "漢", "😀"]})
    yield file_row("names that need escapes", *in_numpy, {'"\\/\x01\x1f\x7f\b\f\n\r\t': ("I16", [1])})
    for i in range(10):
        metadata = {rng.choice(["format", "é\n", ""]): rng.choice(["pt", '"q"', "漢字"])} if i % 2 else None
        yield file_row(f"random numpy {i}", *in_numpy, random_specs(rng, list(NUMPY)), metadata)
        yield file_row(f"random torch {i}", *in_torch, random_specs(rng, list(TORCH)), metadata)


def entry(dtype="F32", shape="[2]", offsets="[0,8]", extra=""):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{extra}}}'


def headers():
    one = entry()
    yield from [("{}", 0), ("{}   ", 0), ("{ }", 0), ("{} \n", 0), (" {}", 0), ("[]", 0), ("null", 0), ("", 0),
                ("{", 0), ("}", 0), ("{}}", 0), ("{},", 0), ("{}", 1), ('{"__metadata__":{}}', 0)]
    for metadata in ["null", "[]", '"x"', '{"a":1}', '{"a":null}', '{"a":{}}', '{"a":["b"]}', '{"a":"b"}',
                     '{"a":"b","a":"c"}', '{"":""}']:
        yield f'{{"__metadata__":{metadata}}}', 0
    yield '{"__metadata__":{},"__metadata__":{}}', 0
    for shape in ["[]", "[0]", "[1]", "[3]", "[-2]", "[2.0]", "[2e0]", "[-0]", "[02]", "[+2]", '["2"]', "[null]", "[[2]]",
                  "[true]", "{}", "2", "null", "[2,]", "[1,2]", "[2,1]", "[18446744073709551615]",
                  "[18446744073709551616]", "[9223372036854775807,2]", "[4294967296,4294967296]",
                  "[4611686018427387904,4,2]", "[0,18446744073709551615]", "[18446744073709551615,2,0]"]:
        yield f'{{"a":{entry(shape=shape)}}}', 8
    for shape in ["[0,18446744073709551615]", "[0,9223372036854775807]", "[0,0]", "[9223372036854775807,2,0]"]:
        yield f'{{"a":{entry(shape=shape, offsets="[0,0]")}}}', 0
    for offsets in ["[0,8]", "[0,7]", "[0,9]", "[8,0]", "[1,9]", "[0]", "[0,8,8]", "[]", "[0,8.0]", "[0,1e1]", "[-0,8]",
                    "[0,-8]", '["0",8]', "8", "null", "[0,18446744073709551615]", "[18446744073709551608,0]",
                    "[0,18446744073709551616]"]:
        yield f'{{"a":{entry(offsets=offsets)}}}', 8
    for dtype in ["F32", "f32", "F33", "", "FLOAT", "BF16", "F4", "F6_E2M3", "I32", "U32", "C64", "float32"]:
        yield f'{{"a":{entry(dtype=dtype)}}}', 8
    for dtype, shape, count in [("F4", "[2]", 1), ("F4", "[1]", 1), ("F4", "[3]", 2), ("F6_E2M3", "[4]", 3),
                                ("F6_E2M3", "[2]", 2), ("F6_E3M2", "[8]", 6), ("F6_E3M2", "[1]", 1), ("F4", "[]", 1),
                                ("F8_E8M0", "[3]", 3), ("F8_E4M3FNUZ", "[1]", 1), ("F8_E5M2FNUZ", "[1]", 1)]:
        yield f'{{"a":{entry(dtype, shape, f"[0,{count}]")}}}', count
    for data in [0, 7, 8, 9, 16]:
        yield f'{{"a":{one}}}', data
    yield from [(f'{{"a":{one},"a":{one}}}', 8), (f'{{"a":{one},"\\u0061":{one}}}', 8), (f'{{"a":{one},"b":{one}}}', 8),
                (f'{{"a":{one},"b":{entry(offsets="[8,16]")}}}', 16), (f'{{"b":{entry(offsets="[8,16]")},"a":{one}}}', 16),
                (f'{{"a":{one},"b":{entry(offsets="[4,12]")}}}', 12), (f'{{"a":{one},"b":{entry(offsets="[9,17]")}}}', 17),
                (f'{{"a":{one},"b":{entry(shape="[0]", offsets="[0,0]")}}}', 8),
                (f'{{"a":{one},"b":{entry(shape="[0]", offsets="[8,8]")}}}', 8),
                (f'{{"a":{one},"b":{entry(shape="[0]", offsets="[4,4]")}}}', 8),
                (f'{{"a":{one},}}', 8), (f'{{"a":{one} "b":{one}}}', 8), (f'{{a:{one}}}', 8), (f"{{'a':{one}}}", 8),
                (f'{{"a":{one}}}//x', 8), (f'{{/**/"a":{one}}}', 8), (f'{{"a":{entry(extra=chr(44) + chr(34) + "x" + chr(34) + ":1")}}}', 8),
                (f'{{"\\ud800":{one}}}', 8), (f'{{"\\ud83d\\ude00":{one}}}', 8), (f'{{"a\\x":{one}}}', 8), (f'{{"a\n":{one}}}', 8),
                ('{"a":{"dtype":"F32","shape":[2]}}', 8), ('{"a":{"dtype":"F32","data_offsets":[0,8]}}', 8),
                ('{"a":{"shape":[2],"data_offsets":[0,8]}}', 8), ('{"a":{}}', 0), ('{"a":[]}', 0), ('{"a":null}', 0), ('{"a":1}', 0),
                ('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
                ('{"a":{"dtype":0,"shape":[2],"data_offsets":[0,8]}}', 8), ('{"a":{"dtype":null,"shape":[2],"data_offsets":[0,8]}}', 8)]
    yield '{"a":' * 200 + "1" + "}" * 200, 0
    yield "[" * 5000, 0


def accepts(header, data):
    try:
        deserialize(struct.pack("<Q", len(header.encode())) + header.encode() + bytes(data))
        return True
    except SafetensorError:
        return False


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 20260131)
    here = pathlib.Path(__file__)
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else here.with_suffix(".json")
    golden = {"files": list(file_rows(rng)),
              "headers": [{"header": h, "data": d, "accepted": accepts(h, d)} for h, d in headers()]}
    lines = [f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for key, rows in golden.items()]
    output.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(golden['files'])} files, {len(golden['headers'])} headers")


if __name__ == "__main__":
    main()
