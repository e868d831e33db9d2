#!/usr/bin/env python3
"""Compares the collators of this library with Transformers': names, order, shapes, dtypes and values of batches.

usage: collators_live.py PROBE [--cases N] [--seed S]

Exits 1 and prints the first differences. Each collator gets several batches, as its random numbers go on from one to the next.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: the originals are missing: {error}")
    sys.exit(77)
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DTYPES = {torch.int64: "Long", torch.int32: "Int", torch.float32: "Float", torch.bool: "Bool"}


def save_tokenizer(folder, side):
    words = {word: i for i, word in enumerate(SPECIAL + [f"w{i}" for i in range(95)])}
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                                     mask_token="[MASK]", padding_side=side, model_max_length=64)
    tokenizer.save_pretrained(folder)
    return tokenizer


def random_ids(draw):
    return [2] + [draw.randrange(5, 100) for _ in range(draw.randint(0, 12))] + [3]


def random_rows(draw, name):
    names = draw.sample(["attention_mask", "token_type_ids", "special_tokens_mask", "score", "flag", "vector"], draw.randint(0, 4))
    label = draw.choice(["label", "labels", None])
    if name == "default_data_collator":
        label = draw.choice(["label", "label_ids", "labels", None])
    length = draw.randint(2, 9)
    rows = []
    for _ in range(draw.randint(1, 5)):
        ids = random_ids(draw)
        if name == "default_data_collator":
            ids = [draw.randrange(100) for _ in range(length)]
        row = {"input_ids": ids}
        for other in names:
            row[other] = {"attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids), "score": draw.random(), "flag": draw.random() < 0.5,
                          "special_tokens_mask": [int(i in (2, 3)) for i in ids], "vector": [draw.random() for _ in range(3)]}[other]
        if name == "DataCollatorForTokenClassification":
            row[label or "labels"] = [draw.randrange(5) for _ in ids]
        elif name == "DataCollatorForSeq2Seq":
            row["labels"] = random_ids(draw)
        elif name == "DataCollatorWithFlattening":
            row = {"input_ids": ids} | ({"labels": [draw.randrange(5) for _ in ids]} if label else {})
        elif name == "default_data_collator" and label:
            row[label] = [1, 2] if label == "label_ids" else draw.random() if "score" in names else True if "flag" in names else draw.randrange(3)
            row["text"] = "left out"
        elif name == "DataCollatorWithPadding" and label:
            row[label] = draw.randrange(3)
        rows.append(row)
    return rows


def random_options(draw, name):
    if name == "default_data_collator":
        return {}
    if name == "DataCollatorWithFlattening":
        return {key: draw.random() < 0.5 for key in ("return_position_ids", "return_flash_attn_kwargs", "return_seq_idx")} | {
            "separator_id": draw.choice([-100, 7]), "position_ids_start": draw.choice([0, 2])}
    options = {"pad_to_multiple_of": draw.choice([4, 8])} if draw.random() < 0.4 else {}
    if name == "DataCollatorForLanguageModeling":
        options["mlm"] = draw.random() < 0.7
        if options["mlm"]:
            options |= {"seed": draw.randrange(2**40), "mlm_probability": draw.choice([0.15, 0.5, 1.0])}
            options["mask_replace_prob"], options["random_replace_prob"] = draw.choice([(0.8, 0.1), (1.0, 0.0), (0.0, 1.0), (0.5, 0.4), (0.3, 0.0)])
        return options
    if draw.random() < 0.3:
        options |= {"padding": "max_length", "max_length": 24}
    return options


def theirs(collator, rows):
    batch = collator([dict(row) for row in rows])
    tensors = {}
    for name, value in batch.items():
        if value is None:  # DataCollatorForSeq2Seq without labels.
            continue
        tensor = torch.as_tensor(value)
        tensors[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "values": tensor.double().reshape(-1).tolist()}
    return tensors


def random_words(draw):
    """Rows of words, some of which have several tokens or none, and one label a word."""
    rows = [[" ".join(draw.choices(["w1", "w2", "odd"], k=draw.choice([1, 1, 1, 2, 3, 0]))) for _ in range(draw.randint(1, 9))] for _ in range(4)]
    return {"tokens": rows, "ner_tags": [[draw.randrange(5) for _ in row] for row in rows], "all_tokens": draw.random() < 0.5}


def prepared(tokenizer, words):
    """What recipes of token classification do by hand."""
    batch = tokenizer(words["tokens"], truncation=True, max_length=12, is_split_into_words=True)
    labels = []
    for row, tags in enumerate(words["ner_tags"]):
        before, found = None, []
        for word in batch.word_ids(row):
            found.append(-100 if word is None or word == before and not words["all_tokens"] else tags[word])
            before = word
        labels.append(found)
    columns = dict(batch) | {"labels": labels}
    return [{name: column[row] for name, column in columns.items()} for row in range(len(labels))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw, compared, differing = random.Random(options.seed), 0, 0
    transformers.logging.set_verbosity_error()
    names = ["default_data_collator", "DataCollatorWithPadding", "DataCollatorForTokenClassification", "DataCollatorForSeq2Seq",
             "DataCollatorForLanguageModeling", "DataCollatorWithFlattening"]
    for side in ("right", "left"):
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = save_tokenizer(pathlib.Path(folder), side)
            probe = subprocess.Popen([options.probe, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

            def ask(request):
                probe.stdin.write(json.dumps(request) + "\n")
                probe.stdin.flush()
                return json.loads(probe.stdout.readline())

            for case in range(options.cases // 2):
                name = names[case % len(names)]
                chosen = random_options(draw, name)
                original = transformers.default_data_collator
                if name == "DataCollatorWithFlattening":
                    original = transformers.DataCollatorWithFlattening(**chosen)
                elif name != "default_data_collator":
                    original = getattr(transformers, name)(tokenizer, **chosen)
                ask({"collator": name, "options": chosen})
                for _ in range(3):
                    words = random_words(draw) if name == "DataCollatorForTokenClassification" and draw.random() < 0.5 else None
                    rows = random_rows(draw, name) if words is None else prepared(tokenizer, words)
                    expected, got = theirs(original, rows), ask(words or {"rows": rows})
                    compared += 1
                    if list(expected.items()) != list(got.items()):
                        differing += 1
                        if differing <= 5:
                            print(f"{name} {chosen}\n row {rows[0]}\n theirs {list(expected)}\n ours   {list(got)}")
                            print(*(f" {key}: theirs {value}, ours {got.get(key)}"[:400] for key, value in expected.items() if got.get(key) != value), sep="\n")
            probe.stdin.close()
            probe.wait()
    print(f"{compared} batches of {len(names)} collators compared, {differing} differ")
    return 1 if differing or compared < 3 * (options.cases // 2) * 2 else 0


if __name__ == "__main__":
    sys.exit(main())
