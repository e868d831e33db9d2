#!/usr/bin/env python3
"""Writes tests/reference/repository_files_golden.json: which files of a repository Python's `datasets` chooses.

usage: repository_files_golden.py [--seed N] [--rows N] [--out FILE]     (needs `datasets` 5.2)

Makes folders of empty files with a card and asks load_dataset_builder(), which decides for a folder as for a
repository of the hub. Another seed gives other random rows; repository_files_test.cpp must pass with them too.

A row: files, card, standalone_yaml, ask_config, data_dir, data_files → names, config, format, delimiter, field, splits; or
`refused` with the reason, where `datasets` throws, gives a split no files, reads a file as what its name does not say,
or chooses what this library does not read.
"""
import argparse
import json
import logging
import pathlib
import random
import re
import tempfile

import datasets
from datasets.load import _MODULE_TO_EXTENSIONS

READABLE = ["csv", "json", "parquet", "text"]
COMPRESSED = (".gz", ".tgz", ".zst", ".bz2", ".xz", ".lz4", ".zip", ".7z", ".tar")


def card(yaml, body="# A set\n\nconfigs: none here\n"):
    return f"---\n{yaml}---\n{body}"


def row(files, card="", **options):
    return {"files": files.split("|") if isinstance(files, str) else files, "card": card} | options


SHARDS = "data/train-00000-of-00002.parquet|data/train-00001-of-00002.parquet|data/test-00000-of-00001.parquet"
TWO = "configs:\n- config_name: a\n  data_files: a/*.csv\n- config_name: b\n  data_files:\n  - split: train\n    path: b/train*.csv\n" \
      "  - split: test\n    path:\n    - b/test.csv\n    - b/more/**\n"
TWO_FILES = "a/1.csv|a/2.csv|b/train.csv|b/train2.csv|b/test.csv|b/more/x.csv|b/more/deep/y.csv|b/.more/z.csv"


def one(data_files, more=""):
    return card(f"license: mit\nconfigs:\n- config_name: default\n  data_files: {data_files}\n{more}")


HAND_PICKED = [
    row("data.csv"), row("data.tsv"), row("a.tsv|b.csv"), row("a.tsv|b.tsv|c.csv"), row("data.json"), row("a.jsonl|b.json|c.ndjson"),
    row("a.txt"), row("a.parquet|b.csv"), row("b.csv|a.json"), row("README.md"), row("LICENSE|.gitattributes"), row("a.bin|b.pt"),
    row("README.md|config.json|dataset_infos.json|dataset_info.json|dataset_dict.json|dummy_data.zip"),
    row("README.md|dataset_infos.json|LICENSE|LICENSE.md|x.json|y.json"), row("LICENSE.md|CHANGES.md|x.csv"),
    row(SHARDS), row(SHARDS + "|data/extra-00000-of-00001.parquet|data/b-00000-of-00001.parquet|train.csv"),
    row("data/a.b-00000-of-00001.csv|data/validation-00000-of-00001.csv"), row("data/a-b-00000-of-00001.csv"),
    row("data/train-00000-of-00001-abcdef.parquet"), row("data/train-00000-of-00001"), row("data/x-1-of-2.csv"),
    row("data/train-00000-of-00001.csv/in.csv"), row("data/-00000-of-00001.csv"), row("data/.hid-00000-of-00001.csv|x.csv"),
    row("sub/" + SHARDS.replace("|", "|sub/")), row("data/train-00000-of-000001.csv"), row("data/a-00000-of-00001-00000-of-00001.csv"),
    row("train.csv|test.csv"), row("train.csv|dev.csv|eval.csv"), row("training.csv|valid.csv|testing.csv|evaluation.csv"),
    row("train.csv|val.csv|validation.csv|validate.csv"), row("my-train.csv|my_test_2.csv|contest.csv"), row("mytrain.csv|trainer.csv"),
    row("train/a.csv|train/b.csv|test/c.csv|d.csv"), row("x/train_1/a.csv|x/train_1/b/c.csv|x/my dev/a.csv"), row("data/train/a.csv|data/test.csv"),
    row("train-train.csv"), row("train/train-1/x.csv"), row("test-train.csv"), row("Train.csv|TEST.csv"), row("train2020.csv|2020test.csv"),
    row("train.json|test.csv"), row("train.csv|test.tsv"), row("train.csv|test-notes.md"), row("train.csv|test.bin"), row("train.jsonl|test.json"),
    row(".hidden.csv|a.csv"), row(".d/a.csv|b.csv"), row("__pycache__/a.csv|b.csv"), row("__x.csv|b.csv"), row("a/__b/c/d.csv|a/e.csv"),
    row(".a.csv"), row("task.toml|a.csv"), row("x/instruction.md|a.csv"), row("run.eval|a.csv"), row("a.jpg|b.jpg|metadata.csv"),
    row("metadata.csv"), row("metadata.csv|a.jsonl"), row("metadata.jsonl|metadata.csv|a.txt"), row("a.arrow|b.parquet|c.parquet"),
    row("a.mp3"), row("a.xml|b.csv"), row("a.tar"), row("a.csv.gz"), row("a.csv.gz|b.csv"), row("a.jsonl.zst"), row("a.csv.bak|b.csv"),
    row("a.csv|b.zip"), row("a.CSV"), row("a.csv|b.CSV"), row("a.JPG|a.csv|b.csv"), row("a.JPG|b.JPG|c.csv"), row("a.Jpg|b.csv"), row("a.csv.JSON|b.csv.JSON|c.csv"),
    row("x.csv.d/a.txt|b.csv|c.csv"), row("a.csv.|b.csv"), row("a..csv"), row("a b.csv|é.csv|Z.csv|z.csv|日本.csv"), row("a.geoparquet|b.gpq"),
    row("a.csv|a/b.csv|a/c/d.csv|A/b.csv"), row("a.pdf"), row("a.conll"), row("a.csv|b.json|c.json|d.txt"), row([]),
    row("sub/a.csv|b.json", data_dir="sub"), row("sub/train.csv|sub/test.csv|b.json", data_dir="sub/"), row("sub/x.csv|b.json", data_dir="none"),
    row("s/data/train-00000-of-00001.csv|data/test-00000-of-00001.csv", data_dir="s"), row("s/a.csv|s/b.json|s/c.json", data_dir="s"),
    row(TWO_FILES, card(TWO)), row(TWO_FILES, card(TWO), ask_config="a"), row(TWO_FILES, card(TWO), ask_config="b"), row(TWO_FILES, card(TWO), ask_config="c"),
    row(TWO_FILES, card(TWO), data_dir="b"), row(TWO_FILES, card(TWO), ask_config="a", data_dir="b"),
    row(TWO_FILES, card(TWO.replace("config_name: b", "config_name: b\n  default: true"))),
    row(TWO_FILES, card(TWO.replace("config_name: b", "config_name: b\n  default: false"))),
    row(TWO_FILES, card(TWO.replace("config_name: b", "config_name: default"))),
    row(TWO_FILES, card(TWO.replace("config_name: b", "config_name: default").replace("config_name: a", "config_name: a\n  default: yes"))),
    row("x.csv", ask_config="default"), row("x.csv", ask_config="other"), row("x.csv|y/z.csv", one("x.csv")), row("x.csv|y/z.csv", one("'*/*.csv'")),
    row("x.csv|y/z.csv", one("['x.csv', 'y/*']")), row("x.csv|y/z.csv", one("['x.csv', 'x.csv', '*.csv']")), row("x.csv", one("y.csv")),
    row("x.csv", one("'y*.csv'")), row("x.csv", one("['y*.csv', x.csv]")), row("a.csv|b.csv", one("'{a,b}.csv'")), row("{a,b}.csv|a.csv", one("'{a,b}.csv'")),
    row("x.csv|y/z.csv|y/w/v.csv", one("'**'")), row("x.csv|y/z.csv|y/w/v.csv", one("'**/*.csv'")), row("x.csv|y/z.csv|y/w/v.csv", one("'y/**'")),
    row("x.csv|y/z.csv|y/w/v.csv", one("'y/**/v.csv'")), row("x.csv", one("'**.csv'")), row("x.csv", one("'x**'")), row("y/z.csv|y/w/z.csv", one("'**/z.csv'")),
    row("a1.csv|a2.csv|ab.csv|a-.csv", one("'a[0-9].csv'")), row("a1.csv|a2.csv|ab.csv|a-.csv", one("'a[!0-9].csv'")), row("a1.csv|a-.csv|a].csv", one("'a[]-].csv'")),
    row("a1.csv|a^.csv|a!.csv", one("'a[^1].csv'")), row("a1.csv|a[.csv", one("'a[.csv'")), row("a1.csv|ab.csv", one("'a[b-a].csv'")), row("a1.csv", one("'a[!b-a].csv'")),
    row("a/1.csv|a-1.csv|x/a/1.csv", one("'a[!x]1.csv'")), row("a/1.csv|b/a-1.csv|b/a/1.csv", one("'**/a[!x]1.csv'")), row("aé.csv|a1.csv|a日.csv|ax1.csv", one("'a?.csv'")),
    row("a&.csv|a~.csv|a|.csv".replace("a|.csv", "ab.csv"), one("'a[&~].csv'")), row("a\\.csv|a-.csv|a..csv", one("'a[\\-.].csv'")), row("ac.csv|a-.csv|a9.csv", one("'a[a-c-9].csv'")),
    row("x.csv|y.csv", one("./x.csv")), row("y/x.csv", one("./y/*.csv")), row("y/x.csv", one("y//x.csv")), row("y/x.csv", one("'y//*.csv'")), row("y/x.csv", one("y/")),
    row("y/x.csv", one("y")), row("y/x.csv", one("'y/*/'")), row("x.csv", one("x.csv/")), row("x.csv", one("''")), row("x.csv", one("/x.csv")), row("x.csv", one("https://host/x.csv")),
    row(".h/x.csv|.x.csv|y.csv", one("'.*'")), row(".h/x.csv|.x.csv|y.csv", one("'.h/*'")), row(".h/x.csv|.x.csv|y.csv", one("'.*/*'")), row(".h/x.csv|.x.csv", one("'.x.csv'")),
    row("__p/x.csv|y.csv", one("'__p/*'")), row("__p/x.csv|y.csv", one("'__*/*'")), row("__p/x.csv|y.csv", one("'*/*'")), row("__p/__q/x.csv", one("'__p/**'")), row("__p/x.csv", one("'**/x.csv'")),
    row("config.json|x.json", one("config.json")), row("config.json|x.json", one("'*.json'")), row("config.json|x.json", one("'**/config.json'")), row("a/config.json", one("'a/config*'")),
    row("x.csv", one("")), row("x.csv", one("[]")), row("x.csv", one("2020")), row("2020|x.csv", one("[2020]")), row("x.csv", one("{train: x.csv}")), row("x.csv", one("[{train: x.csv}]")),
    row("x.csv", one("[{split: train, path: x.csv}]")), row("x.csv", one("[{split: train, path: [x.csv, 'x*']}, {split: dev.1, path: 'x*'}]")), row("x.csv", one("[{split: train-1, path: x.csv}]")),
    row("x.csv", one("[{split: train, path: x.csv}, {split: train, path: x.csv}]")), row("x.csv", one("[{split: train, path: x.csv}, x.csv]")), row("x.csv", one("[{split: yes, path: x.csv}]")),
    row("x.csv", one("[{split: 1, path: x.csv}]")), row("x.csv", one("[{split: '1', path: x.csv}]")), row("x.csv", one("[{split: train, path: x.csv, more: 1}]")), row("x.csv", one("[{split: train, path: {a: b}}]")),
    row("x.csv", one("[{split: train, path: []}]")), row("x.csv|y.csv", one("[{split: z, path: x.csv}, {split: test, path: y.csv}, {split: a, path: x.csv}]")), row("x.csv", one("[{split: train, path: x.csv}, {split: test, path: 'y*'}]")),
    row("x.csv|y.json", one("[{split: train, path: x.csv}, {split: test, path: y.json}]")), row("x.csv|y.json", one("'*'")), row("x.csv|y.bin", one("'*'")), row("x.csv|y.csv.gz", one("'*'")),
    row("x.csv|s/y.csv", card("configs:\n- config_name: c\n  data_dir: s\n")), row("x.csv|s/y.csv|t/train.csv", card("configs:\n- config_name: c\n  data_dir: s\n- config_name: d\n  data_dir: t/\n"), ask_config="d"),
    row("x.csv|s/y.csv", card("configs:\n- config_name: c\n  data_dir: s\n- config_name: d\n  data_dir: none\n"), ask_config="c"), row("x.csv|s/x.csv", card("configs:\n- config_name: c\n  data_dir: s\n  data_files: x.csv\n")),
    row("s/x.csv", card("configs:\n- config_name: c\n  data_dir: s\n  data_files: x.csv\n")), row("x.csv|s/y.csv", card("configs:\n- config_name: c\n  data_dir: ./s\n")), row("x.csv|s/y.csv", card("configs:\n- config_name: c\n  data_dir:\n")),
    row("a.csv|b.json", card("configs:\n- config_name: c\n  data_files: a.csv\n- config_name: d\n  data_files: b.json\n"), ask_config="d"), row("a.csv|b.json", card("configs:\n- config_name: c\n  data_files: a.csv\n- config_name: d\n  data_files: b.json\n"), ask_config="c"),
    row("a.csv|b.csv", card("configs:\n- config_name: c\n  data_files: a.csv\n- config_name: c\n  data_files: b.csv\n")), row("a.csv|b.csv", card("configs:\n- config_name: c\n  data_files: a.csv\n- config_name: d\n  data_files:\n"), ask_config="d"),
    row("a.csv|b.csv", card("configs:\n- config_name: c\n  data_files: a.csv\n- config_name: d\n  data_files: none.csv\n"), ask_config="c"), row("a.csv|b.csv", card("configs:\n- config_name: c\n  data_files: a.csv\n- config_name: d\n  data_files: [{split: x}]\n"), ask_config="c"),
    row("a.csv", card("configs:\n- data_files: a.csv\n")), row("a.csv", card("configs: a.csv\n")), row("a.csv", card("configs: []\n")), row("a.csv", card("configs:\n")), row("a.csv", card("configs: {a: b}\n")), row("a.csv", card("configs: [a]\n")),
    row("a.csv", card("configs:\n- config_name: 2020\n  data_files: a.csv\n")), row("a.csv", card("configs:\n- config_name: '2020'\n  data_files: a.csv\n")), row("a.csv", card("configs:\n- config_name: no\n  data_files: a.csv\n")),
    row("a.csv", card("configs:\n- config_name: a/b\n  data_files: a.csv\n")), row("a.csv", card("configs:\n- config_name: ''\n  data_files: a.csv\n")), row("a.csv", card("license: mit\n")), row("a.csv", card("")), row("a.csv", "# no front matter\n"),
    row("a.csv|b.csv", one("a.csv").replace("\n", "\r\n")), row("a.csv|b.csv", "\n\n " + one("a.csv")), row("a.csv|b.csv", one("a.csv").replace("---\n#", "--- \t\n#")), row("a.csv|b.csv", one("a.csv").replace("---\n#", "----\n#")),
    row("a.csv|b.csv", one("a.csv").replace("---\nlicense", "--- \nlicense")), row("a.csv|b.csv", "---\nconfigs:\n- config_name: c\n  data_files: a.csv\n---"), row("a.csv|b.csv", "---\nconfigs:\n- config_name: c\n  data_files: a.csv\n"),
    row("a.csv|b.csv", "---\n---\nconfigs:\n- config_name: c\n  data_files: a.csv\n---\n"), row("a.csv|b.csv", "text\n" + one("a.csv")), row("a.csv|b.csv", one("a.csv").replace("---\n#", "---\rb: c\n---\n#")), row("a.csv", card("a: [b\n")), row("a.csv", card("- a\n- b\n")), row("a.csv", card("just text\n")),
    row("a.csv|b.csv", one("a.csv"), standalone_yaml="configs:\n- config_name: c\n  data_files: b.csv\n"), row("a.csv|b.csv", one("a.csv"), standalone_yaml="license: mit\n"), row("a.csv|b.csv", "", standalone_yaml="configs:\n- config_name: c\n  data_files: b.csv\n"),
    row("a.csv", one("a.csv", "  sep: ';'\n")), row("a.csv", one("a.csv", "  sep: ';'\n  delimiter: '|'\n")), row("a.csv", one("a.csv", "  delimiter: \"\\t\"\n")), row("a.tsv", one("a.tsv")), row("a.tsv", one("a.tsv", "  sep: ','\n")),
    row("a.csv", one("a.csv", "  drop_labels: true\n")), row("a.csv", one("a.csv", "  description: a text\n  version: 1.0.0\n")), row("a.json", one("a.json", "  field: data\n")), row("a.csv", one("a.csv", "  field: data\n")), row("a.json", one("a.json", "  sep: ';'\n")),
    row("a.csv|b.csv", data_files={"train": ["a.csv"], "test": ["b*"]}), row("a.csv|b.csv", one("a.csv"), data_files={"x": ["b.csv"]}), row("a.csv|s/b.csv", data_files={"train": ["*.csv"]}, data_dir="s"), row("a.csv|b.bin", data_files={"train": ["*"]}),
    row("a.csv|b.csv", data_files={"train": ["c.csv"]}), row("a.csv|b.csv", data_files={"train": ["c*.csv"]}), row("a.csv|b.csv", data_files={"train": ["a.csv", "a.csv"]}), row(TWO_FILES, card(TWO), data_files={"train": ["a/*"]}),
    row(TWO_FILES, card(TWO), ask_config="b", data_files={"train": ["a/*"]}), row("a.tsv", data_files={"train": ["a.tsv"]}), row("a.csv|b.json", data_files={"train": ["a.csv"], "test": ["b.json"]}),
]

NAMES = ["train", "test", "dev", "val", "validation", "eval", "data", "a", "b", "part", "x", "training", "contest", "en", "fr", ".h", "__c"]
EXTENSIONS = [".csv"] * 6 + [".json", ".jsonl", ".jsonl", ".parquet", ".txt", ".tsv", ".md", ".csv.gz", ".jpg", ".bin", "", ".CSV", ".zip"]
GLUE = ["-", "_", ".", " ", "", "0", "1"]


def random_name(rng):
    return rng.choice(NAMES) + "".join(rng.choice(GLUE) + rng.choice(NAMES[:14]) for _ in range(rng.choice([0, 0, 0, 1, 1, 2])))


def random_files(rng):
    main = rng.choice(EXTENSIONS[:12])
    folders = [""] * 3 + [random_name(rng) + "/" for _ in range(rng.randint(0, 3))]
    folders += [f + rng.choice(NAMES) + "/" for f in folders if f]
    files = set()
    for _ in range(rng.randint(1, 12)):
        extension = main if rng.random() < 0.85 else rng.choice(EXTENSIONS)
        files.add(rng.choice(folders) + random_name(rng) + extension)
    if rng.random() < 0.15:
        files |= {f"data/{rng.choice(NAMES[:14])}-0000{i}-of-0000{rng.randint(1, 3)}{main}" for i in range(rng.randint(1, 3))}
    files |= set(rng.sample(["LICENSE", ".gitattributes", "config.json", "dataset_infos.json", "notes.md"], rng.choice([0, 0, 1, 2])))
    # A file cannot be a folder as well.
    return sorted(f for f in files if not any(g.startswith(f + "/") for g in files))


def random_pattern(rng, files):
    parts = rng.choice(files).split("/")
    for i, part in enumerate(parts):
        if rng.random() < 0.45:
            cut = rng.randint(0, len(part))
            parts[i] = rng.choice(["*", "**", part[:cut] + "*", "*" + part[cut:], part[:cut] + "?" + part[cut + 1:], "[a-t]" + part[1:], "[!a-t]" + part[1:], "*[-._ 0-9]" + part[cut:]])
    return "/".join(parts[rng.choice([0, 0, 0, -1]):])


def random_data_files(rng, files):
    pick = lambda: random_pattern(rng, files)
    kind = rng.randint(0, 3)
    if kind == 0:
        return json.dumps(pick())
    if kind == 1:
        return json.dumps([pick() for _ in range(rng.randint(1, 3))])
    splits = rng.sample(["train", "test", "validation", "extra", "a.b"], rng.randint(1, 3))
    return json.dumps([{"split": s, "path": pick() if rng.random() < 0.7 else [pick(), pick()]} for s in splits])


def random_card(rng, files):
    folders = sorted({f.rsplit("/", 1)[0] for f in files if "/" in f}) or ["none"]
    lines = ["configs:"]
    names = rng.sample(["default", "en", "fr", "main", "b c"], rng.choice([1, 1, 2, 3]))
    for name in names:
        lines.append(f"- config_name: {name}")
        if rng.random() < 0.85:
            lines.append(f"  data_files: {random_data_files(rng, files)}")
        if rng.random() < 0.15:
            lines.append(f"  data_dir: {json.dumps(rng.choice(folders))}")
        if rng.random() < 0.15:
            lines.append(f"  default: {rng.choice(['true', 'false', 'yes', '0', 'x'])}")
    return card("\n".join(lines) + "\n"), names


def random_row(rng):
    files = random_files(rng)
    made = row(files)
    if rng.random() < 0.55:
        made["card"], names = random_card(rng, files)
        if rng.random() < 0.5:
            made["ask_config"] = rng.choice(names)
    folders = sorted({f.split("/")[0] for f in files if "/" in f})
    if folders and rng.random() < 0.15:
        made["data_dir"] = rng.choice(folders)
    if rng.random() < 0.1:
        made["data_files"] = {s: [random_pattern(rng, files)] for s in rng.sample(["train", "test", "x"], rng.randint(1, 2))}
    return made


def reason_to_refuse(module, splits):
    known = "|".join(re.escape(e) for e in _MODULE_TO_EXTENSIONS[module])
    paths = [p for files in splits.values() for p in files]
    if module not in READABLE:
        return f"format {module}"
    if not all(splits.values()):
        return "a split is empty"
    if any(p.endswith(COMPRESSED) for p in paths):
        return "compressed"
    return "" if all(re.match(f".*({known})(\\..+)?$", p) for p in paths) else "another format"


def answer_of(question, folder):
    arguments = {k: question[k] for k in ("data_dir", "data_files") if k in question}
    try:
        builder = datasets.load_dataset_builder(str(folder), name=question.get("ask_config"), **arguments)
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}".replace(str(folder), "").split("\n")[0][:120]}
    config = builder.config
    splits = {s: [str(p)[len(str(folder)) + 1:].removeprefix("./").replace("//", "/") for p in files] for s, files in config.data_files.items()}
    reason = reason_to_refuse(builder.name, splits)
    if reason:
        return {"refused": reason}
    # Where the caller names files and no configuration is the default, `datasets` forgets that .tsv has tabs.
    is_forgotten = arguments and config.name not in builder.builder_configs
    return {"config": config.name, "format": builder.name, "delimiter": "" if is_forgotten else getattr(config, "sep", ","),
            "field": getattr(config, "field", None) or "", "splits": [[str(s), files] for s, files in splits.items()], "names": list(builder.builder_configs) or ["default"]}


def asked(question):
    with tempfile.TemporaryDirectory(prefix="repository") as folder:
        folder = pathlib.Path(folder).resolve()
        texts = {"README.md": question["card"], ".huggingface.yaml": question.get("standalone_yaml", "")}
        for file in question["files"] + [name for name, text in texts.items() if text]:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            text = "{}" if file.endswith("dataset_infos.json") else ""
            (folder / file).write_bytes((texts.get(file) or text).encode())
        return answer_of(question, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=150, help="random ones besides those picked by hand")
    parser.add_argument("--out", default=pathlib.Path(__file__).parents[2] / "reference" / "repository_files_golden.json")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    datasets.disable_progress_bars()
    rng = random.Random(arguments.seed)
    questions = HAND_PICKED + [random_row(rng) for _ in range(arguments.rows)]
    rows = [question | asked(question) for question in questions]
    text = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    pathlib.Path(arguments.out).write_text(f'{{"datasets": "{datasets.__version__}", "count": {len(rows)}, "rows": [\n{text}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} rows, {sum('refused' in r for r in rows)} refused")


if __name__ == "__main__":
    main()
