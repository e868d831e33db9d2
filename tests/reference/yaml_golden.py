#!/usr/bin/env python3
"""Writes tests/reference/yaml_golden.json: what PyYAML and Python's json do with a grid of data.

Usage: yaml_golden.py [--seed N] [--out FILE]. Another seed gives other random rows; the tests must pass
with them too.
       yaml_golden.py [--seed N] --libyaml ROWS counts instead what libyaml writes in another way than safe_dump, among
the documents of the goldens and ROWS random ones (docs/decisions/yaml_by_our_own_writer.md).

  documents: data → the text of yaml.safe_dump(data) and of json.dumps(data, indent=2, sort_keys=True)
  floats:    a float (float.hex) → both texts
  scalars:   an unquoted scalar → the YAML 1.1 type PyYAML resolves it to
  texts:     a YAML text → its data, every scalar as the text it was written with
"""
import argparse
import json
import math
import pathlib
import random

import yaml

NASTY = [
    "", " ", "  ", "a", "no", "No", "NO", "nO", "yes", "Yes", "on", "off", "Off", "y", "n", "Y", "N", "true", "True",
    "tRue", "false", "null", "Null", "nUll", "~", "~a", "none", "None", "1", "0", "-1", "+1", "01", "08", "09", "0o7", "1e3",
    "1.e3", "1e+3", "1.0e3", "1.0e+3", "1.5E-3", "1.", ".5", ".", "..", "...", "....", "-.5", "+.5", ".5e+1", "._1", ".1_",
    "0x1f", "0x", "0xg", "-0x1F", "0b01", "0b2", "0b", "0b_", "1_000", "_1", "1__0", "1_000.5", "12:30:45", "12:30", "1:60",
    "1:5:9", "0:30", "01:30", "1:30.5", "1:2:3.", "190:20:30.15", "1:", ":1", "1:666", "-1:30", "=", "==", "<<", "<", ">", ">>",
    "2024-01-01", "2024-1-1", "2024-01-1", "2024-01-01 10:11:12", "2024-1-1T1:02:03.5Z", "2024-01-01T10:11:12+05:30",
    "2024-01-01t10:11:12 -5", "2024-01-01 10:11", "2024-01-01 10:11:12.", "2024-01-01  10:11:12 Z", "2024-01-01 10:11:12 +5:3",
    ".inf", "-.inf", "+.inf", ".Inf", ".INF", ".iNf", ".nan", ".NaN", ".NAN", ".Nan", "-.nan", "inf", "nan", "Infinity",
    " lead", "trail ", " both ", "\tlead", "trail\t", "mid\ttab", "a: b", "a:b", "a:", ":a", ": a", ":", "a :b", "a #b",
    "a#b", "#a", "# a", "a # b", "- a", "-a", "-", "--", "---", "--- a", "---a", "a ---", "...a", "? a", "?a", "?", "a?",
    "a ? b", "%a", "%", "@a", "a@b", "`a", "a`b", "!a", "!", "a!", "&a", "&", "a&b", "*a", "*", "a*b", "|", "|a", "a|b", ">a",
    "[a", "a]", "[a]", "a[0]", "{a", "a}", "{a}", "a{b}", "a, b", ",a", "a,", ",", "'", "''", "'a'", "it's", "a'", "\"",
    "\"a\"", "say \"a\"", "'\"", "\\", "\\n", "a\\b", "C:\\dir", "/usr/bin", "~/hostfile", "a\nb", "a\n", "\na", "\n", "\n\n",
    "a\n\nb", "a\n b", "a \nb", "a\n\n\nb\n", "a\r\nb", "\r", "a\rb", "a\tb\nc", "\0", "a\0b", "\a\b\t\v\f\x1b", "\x7f", "\x80",
    "\x85", "a\x85b", "\xa0", "a\xa0b", "\u2028", "a\u2029b", "\ufeff", "a\ufeffb", "\ufffe", "\uffff", "é", "naïve", "ß", "日本語",
    "Ünïcödé \u263a", "😀", "a 😀 b", "\U0010fffd", "\U0010ffff", "\ud7ff", "\ue000", "LOCAL_MACHINE", "bf16", "127.0.0.1", "10.0.0.1:29500", "a=b",
    "k=v --flag", "BertLayer,GPTJBlock", "^(?:a|b)\\..*$", "$HOME", "$(rm -rf /)", "a;b", "<html>", "1,2,3", "1, 2", "0,1",
    "all", "x" * 79, "x" * 80, "x" * 81, "x" * 122, "x" * 123, "x" * 124, "x" * 200, "word " * 30 + "end",
    "it's " * 30 + "end", "é " * 60 + "end", "é" * 100, "a  b  " * 30 + "c", "line\n" * 5 + "end", ("word " * 20 + "\n") * 3 + "x",
    "x" * 78 + " y", "x" * 79 + " y", "x" * 90 + " " + "y" * 90 + " z", "  " + "word " * 30, "\t" + "word " * 30,
    "word\\ " * 30, "\"quoted\" " * 20, "a\x01" * 60, "a \x01 " * 40, "- " + "long item " * 20, ("w" * 30 + "  ") * 6 + "e",
    ("it's" * 10 + "  ") * 6 + "e", " x\n" * 40, "'" * 90, "' " * 60 + "x", "😀 " * 30, "é" + " " * 100 + "é",
    "# " + "word " * 30 + "end", "?x" * 60, "a: " * 40 + "b", "# " + "x" * 78 + "  y " * 20 + "z",
]
NESTED = [
    None, True, False, 0, 1, -1, 10**12, -(10**18), 2**63 - 1, [], {}, [[]], [{}], {"a": []}, {"a": {}}, {"a": None}, [None],
    [1, [2, [3, [4]]]], [[1, 2], [3, 4]], [{"a": 1, "b": 2}, {"c": 3}], {"a": [1, 2]}, {"a": {"b": [1, {"c": [2]}]}},
    {"b": 1, "a": 2, "B": 3, "_": 4, "é": 5, "日": 6, "😀": 7, "\uffff": 8}, {"a": [[1], [2, [3]]]}, {"a": [{"b": [{"c": []}]}]},
    {"a": "x\ny", "b": ["x\ny"], "c": {"d": "x y " * 30}}, [[["x y " * 30]]], {"a": ["x " * 50, ["y's " * 40]]},
    {"x" * 10: {"y" * 10: {"z" * 10: "word " * 30}}}, {"k" * 122: 1}, {"k" * 123: 1}, {"k" * 200: [1, 2]}, {"k" * 200: {"a": 1}},
    {"a\nb": 1}, {"a\nb": {"c": 1}}, {"a\nb": [1, 2]}, {"": 1}, {"": {"a": 1}}, {"": [1]}, [{"": [1]}, {"k" * 130: {"k" * 130: [1, {"x": 2}]}}],
    {"mixed_precision": "no", "downcast_bf16": "no", "num_processes": 2, "use_cpu": False, "tpu_env": [], "gpu_ids": "0,1"},
    {"fsdp_config": {"fsdp_version": 2, "fsdp_min_num_params": 100000000, "fsdp_transformer_layer_cls_to_wrap": "BertLayer"}},
    [[], {}, None, True, "", "a", 1, [""], {"": ""}],
]
SCALARS = [s for s in NASTY if s and s == s.strip() and "\n" not in s and "\r" not in s and s.isascii()]
TEXTS = [
    "", "\n", "# only a comment\n", "a: b", "a: b\n", "a: b # note\n", "a:   b   \n", "a:\n  b: c\n", "a:\n- b\n- c\n", "a:\n  - b\n  - c\n",
    "a: [1, 2, 3]\n", "a: {b: c, d: e}\n", "a: [\n  1,\n  2\n]\n", "{a: b}\n", "[a, b]\n", "a: 'it''s'\n", "a: \"x\\ty\\u263a\\n\"\n", "a: |\n  x\n  y\n",
    "a: |-\n  x\n  y\n", "a: |+\n  x\n\n", "a: >\n  x\n  y\n\n  z\n", "a: >-\n  x\n  y\n", "a: x\n  y\n  z\n", "a: 'x\n  y'\n", "a: \"x\n  y\\\n  z\"\n",
    "---\na: b\n", "---\na: b\n...\n", "%YAML 1.1\n---\na: b\n", "a: b:c\n", "a: http://x/y\n", "a: x#y\n", "a: -1\n", "- - a\n  - b\n- c\n", "- a: 1\n  b: 2\n- c: 3\n",
    "? a\n: b\n", "? |\n  long\n: b\n", "'a b': c\n", "\"a\\tb\": c\n", "a: 1_000\n", "a: no\n", "no: yes\n", "1: 2\n", "a: !x\n"[:3] + "x\n", "a : b\n", "a: é日😀\n",
    "a: '!x'\n", "a: '&x'\n", "a: '*x'\n", "a: []\nb: {}\n", "a: ''\n", "a: \"\"\n", "a: '~'\n", "{\"a\": [1, 2.5, true, \"x\"], \"b\": {\"c\": \"d\"}}\n",
    "{\n  \"compute_environment\": \"LOCAL_MACHINE\",\n  \"debug\": false,\n  \"num_processes\": 1\n}\n", "a:\r\n  b: c\r\n", "a: b\r\n", "\ufeffa: b\n", "a: x y  z\n",
    "a:\n\n\n  b: c\n", "# c\na: b\n# d\n", "a:\n  # c\n  b: c\n", "a: [x y, z]\n", "a: {b: [c, {d: e}]}\n", "plain\n", "'quoted'\n", "a: @x\n"[:3] + "x@y\n", "a: x, y\n", "a: [x,y]\n",
]


def random_string(rng):
    alphabet = "ab01 :#-?'\"\\\n\t,[]{}&*!|>%@`~=<.é☺😀_xN\x85\u2028\xa0\x01"
    return "".join(rng.choice(alphabet) for _ in range(rng.choice([1, 2, 3, 4, 6, 9, 20, 90, 200])))


def random_data(rng, depth):
    kind = rng.random()
    if depth > 4 or kind < 0.5:
        return rng.choice([random_string(rng), rng.choice(NASTY), rng.randint(-10**6, 10**6), True, False, None, [], {}])
    if kind < 0.75:
        return [random_data(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice([random_string(rng), rng.choice(NASTY), "key"]): random_data(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def documents(rng):
    yield from NASTY
    yield from NESTED
    for text in NASTY:
        yield {"key": text}
        yield {text: "value"}
        yield {text: [text, {"deep": [text]}]}
        yield [text]
        yield [[text, {"a": {"b": {"c": text}}}]]
    for _ in range(120):
        yield random_data(rng, 0)
    for _ in range(120):
        yield {"a": {"b": [random_string(rng), random_string(rng)]}}


def floats(rng):
    yield from [0.0, -0.0, 0.1, 1.0, -1.5, 1e-3, 1e-4, 1e-5, 1.5e-5, 1e15, 1e16, 1.5e16, 1e17, 1e22, 1e100, 1.7976931348623157e308, 5e-324]
    yield from [2.2250738585072014e-308, 123456789.125, 1 / 3, 2 / 3, 2e-5, 3e-4, 0.95, 1e8, math.inf, -math.inf, math.nan]
    for _ in range(200):
        yield rng.uniform(-1, 1) * 10.0 ** rng.randint(-20, 25)


def kind_of(scalar):
    node = yaml.SafeLoader("").resolve(yaml.ScalarNode, scalar, (True, False)).rsplit(":", 1)[1]
    return {"str": "text", "bool": "boolean", "int": "integer", "float": "real", "yaml": "text"}.get(node, node)


def random_scalar(rng):
    return "".join(rng.choice("0123456789_.:-+eExbTZ infa~=<") for _ in range(rng.randint(1, 9))).strip()


def libyaml_dump(data):
    text = yaml.dump(data, Dumper=yaml.CSafeDumper)
    # safe_dump ends a document of one unquoted scalar with "...", libyaml does not.
    return text if isinstance(data, (list, dict)) or text[0] in "'\"" else text + "...\n"


def compare_with_libyaml(name, data):
    rows = [(yaml.safe_dump(d), libyaml_dump(d)) for d in data]
    differ = [(a, b) for a, b in rows if a != b]
    print(f"{name}: {len(differ)} of {len(rows)} differ; the shortest:")
    for a, b in sorted(differ, key=lambda pair: len(pair[0]))[:5]:
        print(f"  safe_dump {a!r}\n  libyaml   {b!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=pathlib.Path(__file__).with_suffix(".json"))
    parser.add_argument("--libyaml", type=int, metavar="ROWS")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    if args.libyaml is not None:
        compare_with_libyaml("documents of the goldens", list(documents(rng)))
        return compare_with_libyaml("random documents", [random_data(rng, 0) for _ in range(args.libyaml)])
    scalars = [""] + SCALARS + [random_scalar(rng) for _ in range(800)]
    golden = {
        "documents": [{"data": d, "yaml": yaml.safe_dump(d), "json": json.dumps(d, indent=2, sort_keys=True) + "\n"} for d in documents(rng)],
        "floats": [{"value": f.hex(), "yaml": yaml.safe_dump([f]), "json": json.dumps([f], indent=2) + "\n"} for f in floats(rng)],
        "scalars": [{"text": s, "kind": kind_of(s)} for s in scalars if s == s.strip()],
        "texts": [{"text": t, "data": yaml.load(t, yaml.BaseLoader)} for t in TEXTS],
    }
    golden["rows"] = {key: len(rows) for key, rows in golden.items()}
    text = "{\n" + ",\n".join(
        f'"{key}": ' + (json.dumps(rows) if key == "rows" else "[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]")
        for key, rows in golden.items()) + "\n}\n"
    pathlib.Path(args.out).write_text(text)


if __name__ == "__main__":
    main()
