#!/usr/bin/env python3
"""Exchanges whole models with the C++ tests through Transformers. usage: transformers_live.py write|read FOLDER

write: a tiny BERT and GPT-2 with random weights, as FOLDER/<model>/hub (one file) and FOLDER/<model>/hub_shards.
read: every other folder in FOLDER/<model> is loaded with from_pretrained: no name may be missing or unexpected, and all
weights must equal those of hub, bit for bit.
"""
import os
import pathlib
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import torch
from transformers import AutoModel, AutoModelForCausalLM, BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

MODELS = {
    "bert": (AutoModel, lambda: BertModel(BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                                     intermediate_size=32, max_position_embeddings=12))),
    # Its output layer is its embedding.
    "gpt2": (AutoModelForCausalLM, lambda: GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2,
                                                                      n_positions=12, bos_token_id=0, eos_token_id=0))),
}


def write(folder):
    for name, (_, make) in MODELS.items():
        torch.manual_seed(len(name))
        model = make()
        model.save_pretrained(folder / name / "hub")
        model.save_pretrained(folder / name / "hub_shards", max_shard_size="4KB")
        assert len(list((folder / name / "hub_shards").glob("model-*.safetensors"))) > 2


def read(folder):
    count = 0
    for name, (kind, _) in MODELS.items():
        expected = kind.from_pretrained(folder / name / "hub").state_dict()
        for path in sorted((folder / name).iterdir()):
            if path.name.startswith("hub"):
                continue
            model, report = kind.from_pretrained(path, output_loading_info=True)
            faults = {key: value for key, value in report.items() if value}
            assert not faults, f"{path}: {faults}"
            state = model.state_dict()
            assert state.keys() == expected.keys(), path
            for key, tensor in state.items():
                assert torch.equal(tensor, expected[key]) and tensor.dtype == expected[key].dtype, f"{path}: {key}"
            count += 1
    print(f"{count} folders")


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](pathlib.Path(sys.argv[2]))
