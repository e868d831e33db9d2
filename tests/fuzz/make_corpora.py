#!/usr/bin/env python3
"""Fills a folder with the first inputs of each fuzzer, taken from the goldens of tests/reference.

Usage: make_corpora.py FOLDER
Then `fuzz_<name> -set_cover_merge=1 build/fuzz/tests/fuzz/corpus/<name> FOLDER/<name>` adds to the unpacked corpus what reaches new code, and
`add_to_corpus.py <name> build/fuzz/tests/fuzz/corpus/<name>` adds that to the committed one.
"""
import json
import pathlib
import struct
import sys

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "reference"


def replace(pattern, content="b"):
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern, behavior):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": behavior == "Removed"}


# One of each kind that a tokenizer.json may name.
COMPONENTS = {
    "normalizer": [
        *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "Strip", "StripAccents", "ByteLevel")),
        {"type": "Prepend", "prepend": "▁"}, replace({"String": "a"}), replace({"Regex": r"\s{2,}|(?<=a)b?|[^\w&&[a-z]]"}),
        {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAABhAA=="},
        {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "NFKC"}]},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True, "lowercase": False}],
    "pre_tokenizer": [
        *({"type": name} for name in ("BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit")),
        {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}, {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        {"type": "Sequence", "pretokenizers": [split({"Regex": r"\p{N}{1,3}|(?i:'s|'t)|\p{L}+"}, "Removed"), {"type": "ByteLevel"}]},
        *(split({"String": " "}, name) for name in ("Isolated", "MergedWithPrevious", "MergedWithNext"))],
    "post_processor": [
        {"type": "BertProcessing", "sep": ["fox", 2], "cls": ["the", 3]}, {"type": "ByteLevel", "trim_offsets": True},
        {"type": "Sequence", "processors": [{"type": "RobertaProcessing", "sep": ["fox", 2], "cls": ["the", 3]}]}],
    "decoder": [
        *({"type": name} for name in ("WordPiece", "ByteLevel", "BPEDecoder", "Metaspace", "ByteFallback", "Fuse", "CTC")),
        {"type": "Sequence", "decoders": [replace({"Regex": "o+"}), {"type": "Strip", "content": "x", "start": 1, "stop": 1}]}]}


def safetensors():
    golden = json.loads((REFERENCE / "safetensors_golden.json").read_text(encoding="utf-8"))
    yield from (bytes.fromhex(row["file"]) for row in golden["files"])
    for row in golden["headers"]:
        header = row["header"].encode()
        yield struct.pack("<Q", len(header)) + header + bytes(row["data"])


def weight_index():
    golden = json.loads((REFERENCE / "weight_index.json").read_text(encoding="utf-8"))
    yield from (row["index"].encode() for row in golden["plans"])
    yield b'{"metadata":{"total_size":1e3,"x":[null,true,-1.5]},"weight_map":{"w":"../a","v":"a.bin"}}'


def manifest():
    file = {"name": "model.safetensors", "size_bytes": 1234, "xxh3_64": "0123456789abcdef"}
    whole = {"files": [file, {**file, "name": "optimizer.json"}], "format": 1, "num_processes": 2}
    yield json.dumps(whole).encode()
    yield json.dumps(whole, indent=2).encode()
    for key, value in (("format", 2), ("num_processes", 0), ("files", []), ("files", [file, file])):
        yield json.dumps({**whole, key: value}).encode()
    for key, value in (("name", "../a"), ("name", ""), ("size_bytes", -1), ("size_bytes", 2**63), ("xxh3_64", "0")):
        yield json.dumps({**whole, "files": [{**file, key: value}]}).encode()


def torch_archive():
    yield from (path.read_bytes() for path in sorted((REFERENCE / "torch_archive").glob("*.pt")))
    yield from (path.read_bytes() for path in sorted((REFERENCE / "fsdp_folders").glob("*/*_rank*.bin")))


def distcp():
    for table in sorted((REFERENCE / "fsdp_folders").glob("*/*/.metadata")):
        for data in sorted(table.parent.glob("*.distcp")):
            yield struct.pack("<I", table.stat().st_size) + table.read_bytes() + data.read_bytes()


def sharding_info():
    tiles = {"a": [[0, 0], [6, 2]], "b": [[0, 2], [3, 4]], "c": [[3, 2], [3, 3]], "d": [[3, 5], [3, 1]]}
    lines = {"a": [[0], [6]], "b": [[2], [3]]}
    cubes = {"a": [[0, 0, 0], [6, 6, 3]], "b": [[0, 0, 3], [6, 2, 3]], "c": [[0, 2, 3], [6, 4, 2]]}
    for boxes in (tiles, lines, cubes, {"s": [[], []]}, {"big": [[2**63 - 1], [2**62]]}):
        yield json.dumps({n: {"saved_offsets": o, "global_shape": s} for n, (o, s) in boxes.items()}).encode()
    yield b'{"w": {"saved_offsets": [0], "global_shape": [1], "more": [{"x": [null, -1.5]}]}}'
    yield b'{"w": {"saved_offsets": [0], "global_shape": [1]}, "w": {}}'


def tokenizer_json():
    golden = json.loads((REFERENCE / "encodings_golden.json").read_text(encoding="utf-8"))
    tokenizers = {name: row["json"] for name, row in golden["tokenizers"].items()}
    yield from (json.dumps(tokenizer, ensure_ascii=False).encode() for tokenizer in tokenizers.values())
    for kind, parts in COMPONENTS.items():
        for part in parts:
            yield json.dumps({**tokenizers["word_level"], kind: part}, ensure_ascii=False).encode()
    yield json.dumps({**tokenizers["bert"], "truncation": {"max_length": 6, "stride": 1, "strategy": "OnlyFirst", "direction": "Left"},
                      "padding": {"strategy": {"Fixed": 9}, "pad_to_multiple_of": 4, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
                                  "direction": "Left"}}).encode()


def field(number, value):
    """A field of a message of protocol buffers."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    tag = number << 3 | (0 if isinstance(value, int) else 2)
    return varint(tag) + (varint(value) if isinstance(value, int) else varint(len(value)) + value)


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def sentencepiece():
    def piece(text, score, kind):
        return field(1, field(1, text.encode()) + field(2, score) + (field(3, kind) if kind != 1 else b""))

    words = ["▁", "t", "h", "e", "▁t", "he", "▁the", "fox", "é", "12"]
    roles = piece("<unk>", 0.0, 2) + piece("<s>", 0.0, 3) + piece("</s>", 0.0, 3) + piece("[CLS]", 0.0, 3) + piece("[SEP]", 0.0, 4)
    pieces = roles + b"".join(piece(word, -float(i), 1) for i, word in enumerate(words))
    fallback = b"".join(piece(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256))
    for algorithm in (1, 2, 3):
        yield pieces + field(2, field(3, algorithm) + field(35, 0) + field(40, 0))
        yield pieces + fallback + field(2, field(3, algorithm) + field(35, 1)) + field(3, field(3, 0) + field(4, 0) + field(5, 1))


def gguf():
    def text(value):
        return struct.pack("<Q", len(value)) + value

    values = {0: b"\1", 1: b"\1", 2: b"\1\0", 3: b"\1\0", 4: b"\1\0\0\0", 5: b"\1\0\0\0", 6: b"\0\0\0\x3f", 7: b"\1", 8: text(b"llama"),
              9: struct.pack("<IQ", 8, 2) + text(b"a") + text(b"bb"), 10: bytes(8), 11: bytes(8), 12: bytes(8)}
    entries = [text(b"k%d" % kind) + struct.pack("<I", kind) + value for kind, value in values.items()]
    entries += [text(b"general.alignment") + struct.pack("<II", 4, 32), text(b"nested") + struct.pack("<IIQIQ", 9, 9, 1, 4, 1) + bytes(4)]
    types = {0: 4, 1: 2, 2: 18, 3: 20, 8: 34, 30: 2}
    for kind, size in types.items():
        for version in (2, 3):
            header = b"GGUF" + struct.pack("<IQQ", version, 1, len(entries)) + b"".join(entries)
            header += text(b"t") + struct.pack("<IQQIQ", 2, 32, 1, kind, 0)
            yield header + bytes(-len(header) % 32) + bytes(range(256))[:size] * (32 if size <= 4 else 1)
            yield b"GGUF" + struct.pack("<IQQ", version, 0, 0)


def main():
    for make in (safetensors, weight_index, gguf, manifest, sharding_info, torch_archive, distcp, tokenizer_json, sentencepiece):
        folder = pathlib.Path(sys.argv[1]) / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        inputs = list(make())
        for number, data in enumerate(inputs):
            (folder / f"{number:03}").write_bytes(data)
        print(f"{make.__name__}: {len(inputs)} inputs")


if __name__ == "__main__":
    main()
