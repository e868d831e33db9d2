#!/usr/bin/env python3
"""Measures what packed rows cost beside blocks of equal length: CPU time of training steps with the same number of tokens.

usage: packing_cost.py PROBE [--steps N] [--rounds N] [--dropout P] [--longest TOKENS] [--python]

A step has 1024 tokens of a small GPT-2: eight blocks of 128 tokens, or rows of 16 to --longest tokens one behind the other,
with position_ids that begin again, as DataCollatorWithFlattening makes them. --python measures Transformers beside. The least
time of the rounds counts.
"""
import argparse
import os
import pathlib
import random
import sys
import tempfile
import time

import safetensors.torch
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "reference"))
from models_live import Probe  # noqa: E402

TOKENS, BLOCK, VOCABULARY = 1024, 128, 2000


def lengths_of(draw, longest):
    lengths = []
    while sum(lengths) < TOKENS:
        lengths.append(min(draw.randint(16, longest), TOKENS - sum(lengths)))
    return lengths


def batch_of(kind, draw, longest):
    ids = torch.randint(2, VOCABULARY, (1, TOKENS))
    if kind == "blocks":
        ids = ids.view(-1, BLOCK)
        return {"input_ids": ids, "labels": ids.clone()}
    positions = torch.cat([torch.arange(length) for length in lengths_of(draw, longest)])[None]
    return {"input_ids": ids, "position_ids": positions, "labels": torch.where(positions == 0, -100, ids)}


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ours(probe, folder, kind, batches, scratch):
    tensors = {f"{i}.{name}": tensor.contiguous() for i, batch in enumerate(batches) for name, tensor in batch.items()}
    safetensors.torch.save_file(tensors, scratch / f"{kind}.safetensors")
    if said := probe.ask(open=folder, task="causal_lm"):
        raise SystemExit(said)
    begin = cpu_seconds(probe.process.pid)
    if said := probe.ask(train=scratch / f"{kind}.safetensors", lr=1e-4, to=scratch / "out"):
        raise SystemExit(said)
    return cpu_seconds(probe.process.pid) - begin


def theirs(folder, batches):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).train()
    model.config.use_cache = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    begin = time.process_time()
    for batch in batches:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return time.process_time() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--python", action="store_true")
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    draw, probe = random.Random(0), Probe(given.probe)
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=256, n_layer=4, n_head=8, n_positions=TOKENS, resid_pdrop=given.dropout,
                                     embd_pdrop=given.dropout, attn_pdrop=given.dropout, bos_token_id=0, eos_token_id=0)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(scratch / "model")
        seconds = {}
        for _ in range(given.rounds):
            for kind in ("blocks", "packed"):
                batches = [batch_of(kind, draw, given.longest) for _ in range(given.steps)]
                seconds.setdefault(f"ours, {kind}", []).append(ours(probe, scratch / "model", kind, batches, scratch))
                if given.python:
                    seconds.setdefault(f"Transformers, {kind}", []).append(theirs(scratch / "model", batches))
    best = {what: min(values) for what, values in seconds.items()}
    for what, value in best.items():
        print(f"{what}: {value:.2f} CPU-seconds for {given.steps} steps of {TOKENS} tokens")
    print(f"packed rows cost {best['ours, packed'] / best['ours, blocks']:.2f} times as much as blocks")


if __name__ == "__main__":
    main()
