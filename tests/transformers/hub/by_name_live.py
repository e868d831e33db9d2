#!/usr/bin/env python3
"""Models, tokenizers and datasets by their names, there and back. usage: by_name_live.py PROBE

PROBE is the program of tests/transformers/hub/probe/by_name.cpp. Transformers makes a small BERT, which the server of tests/transformers/hub/server has under a
name, beside a dataset whose card names its files. The probe opens both by name and pushes them under other names, and Python opens
these. Exits 1 when anything differs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "hf_writer"
TEXT = "the cat sat"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "dog"]
ROWS = {"train": [["the cat", 0], ["the dog, so it is", 1], ["é \"quoted\"", 1]], "validation": [["sat", 0]]}
CARD = """---
license: mit
configs:
- config_name: default
  data_files:
  - split: train
    path: "rows/a*.jsonl"
  - split: validation
    path: rows/held-out.jsonl
- config_name: other
  data_files: none.csv
---
"""


def make_seed(seed):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast
    model = seed / "models" / "acme" / "bert"
    model.mkdir(parents=True)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=3)
    BertForSequenceClassification(config).save_pretrained(model, max_shard_size="8KB")  # Several shards, with an index.
    (model / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab_file=str(model / "vocab.txt")).save_pretrained(model)
    (model / "pytorch_model.bin").write_bytes(b"a pickle that nobody needs")
    data = seed / "datasets" / "acme" / "sayings"
    (data / "rows").mkdir(parents=True)
    (data / "README.md").write_text(CARD, encoding="utf-8")
    for name, rows in (("a-1", ROWS["train"][:2]), ("a-2", ROWS["train"][2:]), ("held-out", ROWS["validation"])):
        (data / "rows" / f"{name}.jsonl").write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows), encoding="utf-8")
    (data / "none.csv").write_text("a\n1\n", encoding="utf-8")
    return model


def logits_of(folder):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    ids = tokenizer(TEXT)["input_ids"]
    with torch.no_grad():
        return ids, model(torch.tensor([ids])).logits[0].tolist()


def near(ours, theirs):
    return len(ours) == len(theirs) and all(abs(a - b) <= 1e-5 for a, b in zip(ours, theirs))


def check_pushed(ids, logits):
    import pyarrow.parquet
    from huggingface_hub import HfApi, hf_hub_download
    assert near(logits_of("acme/pushed-model")[1], logits), "the pushed model"
    assert logits_of("acme/pushed-model")[0] == ids, "the pushed tokenizer"
    files = HfApi().list_repo_files("acme/pushed-data", repo_type="dataset")
    shards = [f"data/{split}-00000-of-00001.parquet" for split in ROWS]
    assert set(shards + ["README.md"]) <= set(files), files
    for split, shard in zip(ROWS, shards):
        table = pyarrow.parquet.read_table(hf_hub_download("acme/pushed-data", shard, repo_type="dataset")).to_pydict()
        assert [list(row) for row in zip(table["text"], table["label"])] == ROWS[split], table
    card = pathlib.Path(hf_hub_download("acme/pushed-data", "README.md", repo_type="dataset")).read_text(encoding="utf-8")
    assert "path: data/train-*" in card, card
    model_card = pathlib.Path(hf_hub_download("acme/pushed-model", "README.md")).read_text(encoding="utf-8")
    assert "library_name: transformers" in model_card, model_card


def main(probe):
    with tempfile.TemporaryDirectory(prefix="by_name_live_") as name:
        home = pathlib.Path(name)
        made = make_seed(home / "seed")
        server = subprocess.Popen([sys.executable, HERE / "server" / "hub_server.py", "--until-eof", "--root", home / "root", "--seed", home / "seed", "--token", TOKEN],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for variable in [name for name in os.environ if name.startswith("HF_") or name.lower().endswith("_proxy")]:
            del os.environ[variable]
        os.environ.update(HF_ENDPOINT=server.stdout.readline().strip(), HF_HOME=str(home / "ours"), HF_TOKEN=TOKEN, HF_HUB_DISABLE_XET="1", OMP_NUM_THREADS="1",
                          HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
        ids, logits = logits_of(str(made))
        for turn in range(2):  # The second time everything is there already.
            done = subprocess.run([probe, "acme/bert", "acme/sayings", TEXT, "acme/pushed"], capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                sys.exit(f"the probe ended with {done.returncode}: {done.stderr}")
            found = json.loads(done.stdout)
            assert found["ids"] == ids, found["ids"]
            assert near(found["logits"], logits), (found["logits"], logits)
            assert found["splits"] == ROWS, found["splits"]
        cached = {path.name for path in (home / "ours" / "hub").glob("models--acme--bert/snapshots/*/*")}
        assert "pytorch_model.bin" not in cached, "fetched what nobody needs"
        assert not list((home / "ours" / "hub").glob("datasets--acme--sayings/snapshots/*/none.csv")), "fetched another configuration"
        # huggingface_hub reads the environment when it is imported.
        os.environ["HF_HOME"] = str(home / "theirs")
        subprocess.run([sys.executable, "-W", "ignore", __file__, "--check", json.dumps([ids, logits])], check=True, timeout=120)
        server.stdin.close()
        server.wait(10)
    print("opened by name, pushed, and opened by Python")


if sys.argv[1] == "--check":
    check_pushed(*json.loads(sys.argv[2]))
else:
    main(sys.argv[1])
