#!/usr/bin/env python3
"""Compares vectors of texts with what sentence-transformers computes from Transformers' models.

usage: sentences_live.py PROBE [--seed S] [--rounds N]

Folders as sentence-transformers writes them, with small random models: each way to pool, with and without a Normalize module, texts
cut at max_seq_length, any batch size. What sentence-transformers computes are the lines of its documentation; with the package installed
it is asked too. Exits 1 and prints the differences; prints how many vectors were compared.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

from architectures import config_of
from models_live import Probe, safetensors, torch, transformers

try:
    import sentence_transformers
except ImportError:
    sentence_transformers = None
WORDS = [f"w{i}" for i in range(90)]
POOLINGS = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}


def write_folder(folder, kind, pooling, normalizes, max_length, draw):
    config = config_of(kind, draw)
    config.pad_token_id = 1 if kind == "mpnet" else 0
    torch.manual_seed(draw.randrange(2**31))
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    special = ["[CLS]", "[PAD]"] if kind == "mpnet" else ["[PAD]", "[CLS]"]
    (folder / "vocab.txt").write_text("\n".join(special + ["[UNK]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=512).save_pretrained(folder)
    modules = ["Transformer", "Pooling"] + (["Normalize"] if normalizes else [])
    paths = ["", "1_Pooling", "2_Normalize"]
    (folder / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{name}"} for i, name in enumerate(modules)]))
    for path in paths[1:]:
        (folder / path).mkdir(exist_ok=True)
    older = {"word_embedding_dimension": config.hidden_size, **{f"pooling_mode_{key}": name == pooling for name, key in POOLINGS.items()}}
    newer = {"embedding_dimension": config.hidden_size, "pooling_mode": pooling, "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(draw.choice([older, newer])))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length, "do_lower_case": False}))


def expected_of(folder, texts, pooling, normalizes, max_length):
    """Mean, first token or greatest values, as the documentation of sentence-transformers shows it."""
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
    inputs = {name: tensor for name, tensor in inputs.items() if name != "token_type_ids" or model.config.model_type != "mpnet"}
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).expand(hidden.size()).float()
    if pooling == "cls":
        vectors = hidden[:, 0]
    elif pooling == "mean":
        vectors = (hidden * mask).sum(1) / torch.clamp(mask.sum(1), min=1e-9)
    else:
        hidden[mask == 0] = -1e9
        vectors = hidden.max(1).values
    return torch.nn.functional.normalize(vectors, p=2, dim=1) if normalizes else vectors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    draw, probe, compared, faults = random.Random(arguments.seed), Probe(arguments.probe), 0, []
    for _ in range(arguments.rounds):
        for kind in ("bert", "mpnet", "albert", "modernbert"):
            for pooling in POOLINGS:
                with tempfile.TemporaryDirectory() as scratch:
                    folder, out = pathlib.Path(scratch) / "model", pathlib.Path(scratch) / "out"
                    folder.mkdir()
                    normalizes, max_length = draw.random() < 0.5, draw.choice([8, 20])
                    write_folder(folder, kind, pooling, normalizes, max_length, draw)
                    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(draw.randint(1, 12))]
                    said = probe.ask(encode=folder, texts=texts, to=out, batch_size=draw.choice([1, 3, 32]))
                    where = f"{kind} {pooling} normalised {normalizes} {max_length}"
                    if said:
                        faults.append(f"{where}: {said}")
                        continue
                    got = safetensors.torch.load_file(out / "model.safetensors")["vectors"]
                    wanted = {"documentation": expected_of(folder, texts, pooling, normalizes, max_length)}
                    if sentence_transformers:
                        model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
                        wanted["sentence-transformers"] = model.encode(texts, convert_to_tensor=True)
                    for name, want in wanted.items():
                        compared += len(texts)
                        off = (want - got).abs().max().item() / max(1.0, want.abs().max().item()) if want.shape == got.shape else float("inf")
                        if not off <= 1e-4:
                            faults.append(f"{where}: {name}: {tuple(want.shape)} off by {off:.2e}")
    for fault in faults[:40]:
        print(fault)
    print(f"{compared} vectors compared, {len(faults)} faults")
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
