"""Opens a model, computes forward and backward of batches and continues a text, as programs/architecture_steps.cpp.

usage: architecture_steps.py FOLDER HEAD BATCHES TOKENS
"""
import sys
import time

import safetensors.torch
import torch
import transformers

import measure

HEADS = {"sequence_classification": transformers.AutoModelForSequenceClassification, "causal_lm": transformers.AutoModelForCausalLM,
         "seq2seq_lm": transformers.AutoModelForSeq2SeqLM}


def padded_of(file):
    tensors = safetensors.torch.load_file(file)
    return [{name: tensors[f"{i}.{name}"] for name in ("input_ids", "attention_mask", "labels")} for i in range(len(tensors) // 3)]


def whole_of(padded):
    words = torch.cat([batch["input_ids"][batch["attention_mask"] == 1] for batch in padded])
    rows = [words[begin:begin + 512].view(4, 128) for begin in range(0, len(words) - 511, 512)]
    return [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": padded[0]["labels"][:4]} for ids in rows]


def main(folder, head, file, tokens):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model, tokens, losses, found = HEADS[head].from_pretrained(folder), int(tokens), [], {}
    model.train()

    def step(batch):
        model.zero_grad()
        labels = batch["labels"] if head == "sequence_classification" else torch.where(batch["attention_mask"] == 1, batch["input_ids"], -100)
        loss = model(**(batch | {"labels": labels}), use_cache=False).loss if head != "sequence_classification" else model(**batch).loss
        loss.backward()
        losses.append(loss.item())

    padded = padded_of(file)
    for name, batches in (("padded", padded), ("whole", whole_of(padded))):
        step(batches[0])
        losses.clear()
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        found[name] = {"step_seconds": (time.perf_counter() - start) / len(batches), "loss": sum(losses) / len(losses)}
    if tokens:
        model.eval()
        given = {"input_ids": padded[0]["input_ids"][:1, :8], "max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
        model.generate(**given)
        start = time.perf_counter()
        ids = model.generate(**given)
        found |= {"token_seconds": (time.perf_counter() - start) / tokens, "ids": ids.flatten().tolist()}
    measure.report(**found)


main(*sys.argv[1:])
