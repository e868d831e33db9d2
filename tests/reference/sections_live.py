#!/usr/bin/env python3
"""Compares what AutoTokenizer takes from the sections `padding` and `truncation` of tokenizer.json beside tokenizer_config.json.

usage: sections_live.py PROBE [--seed S] [--folders N]

Draws both files at random; compares special tokens, sides, lengths, calls, and both files when they are saved. Exits 1 and prints the
first differences.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile
import warnings

import transformers
from pretrained_live import Comparison, Probe, about, call

VOCAB = {word: i for i, word in enumerate(
    "[UNK] [PAD] [CLS] [SEP] [MASK] <pad> <s> </s> <unk> <|endoftext|> <|padding|> <|startoftext|> <cls> <sep> <mask> the fox jumps".split())}
KEPT = ("pad_token", "max_length", "stride", "truncation_strategy", "pad_to_multiple_of", "pad_token_type_id", "model_max_length")
CONFIGS = [
    None, {}, {"tokenizer_class": "PreTrainedTokenizerFast"}, {"tokenizer_class": "BertTokenizer"}, {"tokenizer_class": "DistilBertTokenizerFast"},
    {"tokenizer_class": "GPT2Tokenizer"}, {"tokenizer_class": "RobertaTokenizer"}, {"tokenizer_class": "Qwen2Tokenizer"},
    {"tokenizer_class": "CLIPTokenizer"}, {"tokenizer_class": "OddTokenizer"}, {"pad_token": None},
    {"pad_token": "<pad>"}, {"padding_side": "right"}, {"padding_side": "left"}, {"truncation_side": "right"}, {"truncation_side": "left"},
    {"model_max_length": 9}, {"max_length": 3, "stride": 1, "pad_to_multiple_of": 4}, {"added_tokens_decoder": {}},
    {"pad_token": {"content": "<pad>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False, "__type": "AddedToken"}},
]


def draw_files(draw):
    """tokenizer.json and the files beside it."""
    padding = draw.choice([None, {
        "strategy": draw.choice(["BatchLongest", {"Fixed": draw.choice([7, 16])}]), "direction": draw.choice(["Left", "Right"]),
        "pad_to_multiple_of": draw.choice([None, 8]), "pad_id": draw.choice([0, 1, 5]), "pad_type_id": draw.choice([0, 3]),
        "pad_token": draw.choice(["[PAD]", "<pad>", "<new>"])}])
    truncation = draw.choice([None, {
        "direction": draw.choice(["Left", "Right"]), "max_length": draw.choice([8, 12]), "stride": draw.choice([0, 2]),
        "strategy": draw.choice(["LongestFirst", "OnlyFirst", "OnlySecond"])}])
    added = [{"id": 1, "content": "[PAD]", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]
    model = {"type": "WordLevel", "vocab": VOCAB, "unk_token": "[UNK]"}
    files = {"tokenizer.json": {
        "version": "1.0", "truncation": truncation, "padding": padding, "added_tokens": draw.choice([[], added]), "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None, "model": model}}
    config = draw.choice(CONFIGS)
    if config is not None:
        files["tokenizer_config.json"] = config
    if draw.random() < 0.2:
        files["special_tokens_map.json"] = {"pad_token": "<pad>"}
    if draw.random() < 0.2:
        files["config.json"] = {"model_type": draw.choice(["bert", "gpt_neox", "clip"])}
    return files


def saved(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    return {key: config.get(key) for key in KEPT} | {key: tokenizer[key] for key in ("padding", "truncation")}


def is_followed(tokenizer):
    """Whether Python follows tokenizer.json, too: its classes make parts of their own of the vocabulary."""
    return type(tokenizer).__name__ == "TokenizersBackend"


def comparable(tokenizer, answer):
    return answer if is_followed(tokenizer) else {key: value for key, value in answer.items() if key not in ("single", "pair", "added", "size")}


def compare(probe, folder, draw):
    comparison = Comparison(probe, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    comparison.check("open", {}, probe.ask(open=str(folder)))
    comparison.check("about", comparable(tokenizer, about(tokenizer)), comparable(tokenizer, probe.ask(about=True)))
    tokenizer.save_pretrained(folder / "python")
    probe.ask(save=str(folder / "cpp"))
    comparison.check("saved", saved(folder / "python"), saved(folder / "cpp"))
    again = [comparable(tokenizer, about(transformers.AutoTokenizer.from_pretrained(folder / side))) for side in ("python", "cpp")]
    comparison.check("opened again", *again)
    for _ in range(4 if is_followed(tokenizer) else 0):
        request = {"text": ["the fox jumps " * draw.randint(1, 5), "the fox"]}
        for key, choices in (("padding", [True, "max_length", False]), ("truncation", [True, False]), ("max_length", [4, 16])):
            if draw.random() < 0.6:
                request[key] = draw.choice(choices)
        comparison.check(request, call(tokenizer, request), probe.ask(call=request))
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folders", type=int, default=60)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    draw, probe, count, failed = random.Random(args.seed), Probe(args.probe), 0, 0
    with tempfile.TemporaryDirectory() as name:
        for number in range(args.folders):
            folder, files = pathlib.Path(name) / str(number), draw_files(draw)
            folder.mkdir()
            for file, value in files.items():
                (folder / file).write_text(json.dumps(value))
            comparison = compare(probe, folder, draw)
            count += comparison.count
            failed += comparison.faults
            if comparison.faults:
                print({file: value for file, value in files.items() if file != "tokenizer.json"},
                      {key: files["tokenizer.json"][key] for key in ("padding", "truncation", "added_tokens")})
    print(f"sections: {count} answers compared, {failed} differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
