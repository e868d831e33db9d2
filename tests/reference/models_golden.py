#!/usr/bin/env python3
"""Writes what Transformers makes of small new models: tests/transformers/models/golden_test.cpp makes the same of them, without Python.

usage: models_golden.py [--seed S] > models_golden.json

A row is an architecture with a head: its configuration and the seed of its weights, a padded batch, and of that batch up to 100 logits, the
loss, and the norm of each parameter's gradient; of decoders with a language head also what is generated greedily and drawn. No
weights are kept: a seed gives the same on both sides, unless Transformers makes the head first. Then every parameter of one dimension, in order, has random numbers added.

The last rows, two an architecture that is an encoder or a decoder, have several sequences in each row of the batch. Decoders tell them by position_ids, as Transformers
lets them without a cache. Encoders of Transformers do not, so they get a mask of sequences; what is kept has none. In the second of the two
positions do not begin again but jump: another sequence to decoders, none to encoders.
"""
import argparse
import json
import random
import sys

import torch
import transformers

from architectures import ARCHITECTURES, KINDS, VOCABULARY, attention_of, config_of

ROWS, LENGTH = 2, 6


def rounded(tensor):
    return [float(f"{value:.6g}") for value in tensor.detach().flatten().tolist()]


def labels_of(task, ids, mask):
    if task == "sequence_classification":
        return {"labels": torch.tensor([1, 0])}
    if task == "question_answering":
        return {"start_positions": torch.tensor([1, 0]), "end_positions": torch.tensor([3, 2])}
    if task == "multiple_choice":
        return {"labels": torch.tensor([1])}
    wanted = ids % 2 if task == "token_classification" else ids
    return {"labels": torch.where(mask.bool(), wanted, -100)}


def row_of(kind, task, head, draw):
    config, seed = config_of(kind, draw), draw.randrange(2**31)
    torch.manual_seed(seed)
    model = getattr(transformers, head).from_config(config, attn_implementation=attention_of(config)).train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape) * 0.2)
    ids = torch.randint(2, VOCABULARY, (ROWS, LENGTH))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    ids = torch.where(mask.bool(), ids, 1)
    if task == "sequence_classification" and ARCHITECTURES[kind].is_seq2seq:  # By the last token of 2, as many in each row.
        ids[ids == 2] = 3
        ids[:, 3] = 2
    inputs = {"input_ids": ids, "attention_mask": mask}
    if task == "multiple_choice":
        inputs = {name: tensor.unsqueeze(0) for name, tensor in inputs.items()}
    inputs |= labels_of(task, ids, mask) if task != "base" else {}
    if task == "base" and ARCHITECTURES[kind].is_seq2seq:
        inputs["decoder_input_ids"] = ids
    output = model(**inputs)
    row = {"kind": kind, "task": task, "seed": seed, "config": json.loads(config.to_json_string()),
           "inputs": {name: {"shape": list(tensor.shape), "values": tensor.flatten().tolist()} for name, tensor in inputs.items()}}
    first = {"base": "last_hidden_state", "question_answering": "start_logits"}.get(task, "logits")
    values = output[first]
    row["output"] = first
    row["values"] = rounded(values[mask.bool()] if values.shape[:2] == mask.shape else values)[:100]
    if task != "base":
        output.loss.backward()
        row["loss"] = rounded(output.loss)[0]
        row["gradients"] = {name: rounded(parameter.grad.norm())[0] for name, parameter in model.named_parameters() if parameter.grad is not None}
    if task in ("causal_lm", "seq2seq_lm"):
        model.eval()
        prompt, given = ids[:1, :4], {"max_new_tokens": 8, "eos_token_id": 96, "pad_token_id": 0}
        row["greedy"] = model.generate(prompt, **given, do_sample=False)[0].tolist()
        torch.manual_seed(seed)
        row["drawn"] = model.generate(prompt, **given, do_sample=True, temperature=0.8, top_k=20)[0].tolist()
        row["beams"] = model.generate(prompt, **given, num_beams=3, do_sample=False)[0].tolist()
    return row


def packed_row_of(kind, draw, jump=0):
    is_encoder = ARCHITECTURES[kind].is_encoder
    head = ARCHITECTURES[kind].heads["masked_lm" if is_encoder else "causal_lm"]
    config, seed = config_of(kind, draw), draw.randrange(2**31)
    config.use_cache = False
    if kind == "modernbert":
        config.sparse_prediction = False  # Its logits would be of the labels alone.
    torch.manual_seed(seed)
    model = getattr(transformers, head).from_config(config, attn_implementation=attention_of(config)).train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn(parameter.shape) * 0.2)
    first = ARCHITECTURES[kind].first_position
    lengths = [[4, 3, 3, 1], [6, 5]]
    ids = torch.randint(2, VOCABULARY, (len(lengths), sum(lengths[0])))
    places = [[first + (sum(row[:i]) + jump * i if jump else 0) for i in range(len(row))] for row in lengths]
    positions = torch.stack([torch.cat([torch.arange(place, place + length) for place, length in zip(*row)]) for row in zip(places, lengths)])
    begins = positions.diff(prepend=positions[:, :1]) != 1
    inputs = {"input_ids": ids, "position_ids": positions, "labels": torch.where(begins, -100, ids)}
    numbers = begins.cumsum(1)
    same = (numbers[:, :, None] == numbers[:, None, :])[:, None]
    if "sdpa" not in ARCHITECTURES[kind].attentions:  # The mask is then added to scores.
        same = torch.where(same, 0.0, torch.finfo(torch.float32).min)
    if ARCHITECTURES[kind].has_windows and is_encoder:
        place = torch.arange(sum(lengths[0]))
        same = {"full_attention": same, "sliding_attention": same & ((place[:, None] - place[None, :]).abs() <= config.sliding_window)}
    output = model(**inputs, **({"attention_mask": same} if is_encoder and not jump else {}))
    output.loss.backward()
    return {"kind": kind, "task": "masked_lm" if is_encoder else "causal_lm", "packed": lengths, "seed": seed,
            "config": json.loads(config.to_json_string()),
            "inputs": {name: {"shape": list(tensor.shape), "values": tensor.flatten().tolist()} for name, tensor in inputs.items()},
            "output": "logits", "values": rounded(output.logits[:, :, :5]), "loss": rounded(output.loss)[0],
            "gradients": {name: rounded(parameter.grad.norm())[0] for name, parameter in model.named_parameters() if parameter.grad is not None}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    draw = random.Random(parser.parse_args().seed)
    torch.set_num_threads(1)
    rows = [row_of(kind, task, head, draw) for kind in KINDS
            for task, head in ARCHITECTURES[kind].heads.items() if task == "base" or not ARCHITECTURES[kind].makes_head_first]
    rows += [packed_row_of(kind, draw, jump) for jump in (0, 2) for kind in KINDS
             if not ARCHITECTURES[kind].makes_head_first and not ARCHITECTURES[kind].is_seq2seq and (jump or ARCHITECTURES[kind].tells_sequences)]
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")


if __name__ == "__main__":
    sys.exit(main())
