#!/usr/bin/env python3
"""Writes a Transformers BERT that tells sentences of two kinds apart as a TorchScript file.

  python examples/fsdp/export_bert.py bert.pt [checkpoint]

Without a checkpoint (a name on the hub or a folder) it is a tiny BERT with random weights, which trains in a second.
"""
import sys
import warnings

import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

LENGTH = 16  # tokens of a sentence


def tiny_bert():
    torch.manual_seed(42)
    # Dropout would draw other numbers on other ranks, and losses could not be compared.
    return BertForSequenceClassification(BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa"))


def export(model, path):
    """Traced over two sentences, one of them padded: a forward takes tokens and their mask, int64 {n, 16}, and returns
    a tuple of the scores, float32 {n, 2}."""
    model.config.return_dict = False
    tokens = torch.ones(2, LENGTH, dtype=torch.int64)
    mask = torch.ones_like(tokens)
    mask[1, LENGTH // 2:] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer on branches that it takes once and for all
        torch.jit.trace(model.train(), (tokens, mask), check_trace=False).save(str(path))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export(AutoModelForSequenceClassification.from_pretrained(sys.argv[2], num_labels=2) if len(sys.argv) > 2
           else tiny_bert(), sys.argv[1])
