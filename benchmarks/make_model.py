#!/usr/bin/env python3
"""Writes a model of MiniLM's size with random weights, and without dropout, as the suite `architectures` computes it.

usage: make_model.py FOLDER MODEL_TYPE HEAD      HEAD: sequence_classification, causal_lm or seq2seq_lm
"""
import sys

import torch
import transformers

COMMON = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
OWN = {"distilbert": {"dim": 384, "n_layers": 6, "n_heads": 12, "hidden_dim": 1536},
       "gpt2": {"n_embd": 384, "n_layer": 6, "n_head": 12},
       "t5": {"d_model": 384, "num_layers": 6, "num_heads": 12, "d_kv": 32, "d_ff": 1536, "decoder_start_token_id": 0},
       "bart": {"d_model": 384, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
                "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536},
       "deberta-v2": COMMON | {"relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
                               "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0, "max_position_embeddings": 512},
       "albert": COMMON | {"embedding_size": 128}, "gemma2": COMMON | {"head_dim": 32, "query_pre_attn_scalar": 32},
       "gemma3_text": COMMON | {"head_dim": 32, "query_pre_attn_scalar": 32}, "qwen3": COMMON | {"head_dim": 32}}
DECODERS = {"num_key_value_heads": 4}
HEADS = {"sequence_classification": transformers.AutoModelForSequenceClassification, "causal_lm": transformers.AutoModelForCausalLM,
         "seq2seq_lm": transformers.AutoModelForSeq2SeqLM}


def main(folder, kind, head):
    keys = {"vocab_size": 30522, "pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102} | OWN.get(kind, COMMON)
    if head == "causal_lm" and kind != "gpt2":
        keys |= DECODERS
    config = transformers.AutoConfig.for_model(kind, **keys, num_labels=8)
    for name, value in list(config.to_dict().items()):
        if isinstance(value, float) and ("drop" in name):
            setattr(config, name, 0.0)
    torch.manual_seed(1)
    HEADS[head].from_config(config).save_pretrained(folder)


main(*sys.argv[1:])
