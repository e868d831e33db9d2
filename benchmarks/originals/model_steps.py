"""Opens a BERT with a new head of eight classes and computes forward and backward of batches, as programs/model_steps.cpp.

usage: model_steps.py FOLDER BATCHES float32|bfloat16 DROPOUT [padded|unpadded|compiled]

padded: as Transformers comes, the default. unpadded: by unpadded_bert.py. compiled: padded, by torch.compile for shapes that change.
"""
import sys
import time

import safetensors.torch
import torch
import transformers

import measure
from unpadded_bert import UnpaddedBert


def main(folder, file, kind, dropout, how="padded"):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tensors = safetensors.torch.load_file(file)
    batches = [{name: tensors[f"{i}.{name}"] for name in ("input_ids", "attention_mask", "labels")} for i in range(len(tensors) // 3)]
    torch.manual_seed(1)
    start = time.perf_counter()
    config = transformers.AutoConfig.from_pretrained(folder, num_labels=8, hidden_dropout_prob=float(dropout),
                                                     attention_probs_dropout_prob=float(dropout))
    of_class = UnpaddedBert if how == "unpadded" else transformers.AutoModelForSequenceClassification
    model = of_class.from_pretrained(folder, config=config)
    opening = time.perf_counter() - start
    model.train()
    forward, losses = torch.compile(model, dynamic=True) if how == "compiled" else model, []

    def step(batch):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "bfloat16"):
            loss = forward(**batch).loss
        loss.backward()
        losses.append(loss.item())

    for batch in batches if how == "compiled" else batches[:1]:  # A new shape may be compiled again.
        step(batch)
    losses.clear()
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    seconds = time.perf_counter() - start
    measure.report(open_seconds=opening, pass_seconds=seconds, batches=len(batches), loss=sum(losses) / len(losses))


main(*sys.argv[1:])
