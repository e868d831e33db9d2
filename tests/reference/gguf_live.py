#!/usr/bin/env python3
"""Compares models read from GGUF files with Transformers.

usage: gguf_live.py PROBE [--seed S] [--rounds N] [--file FOLDER/MODEL.gguf]

Files of each architecture with random weights in each type that is read: tensors are Python's to the bit, the configuration says the
same, and logits agree. --file compares the tensors and logits of a real one instead. Exits 1 and prints the differences; prints how
many tensors were compared.
"""
import argparse
import os
import pathlib
import random
import sys
import tempfile

os.environ["TQDM_DISABLE"] = "1"  # Transformers shows a bar for each file.

import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from architectures import ARCHITECTURES
from models_live import Probe, safetensors, torch, transformers
from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map

TYPES = [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.F16, Type.BF16, Type.F32]
AUTO = {"causal_lm": transformers.AutoModelForCausalLM, "base": transformers.AutoModel,
        "sequence_classification": transformers.AutoModelForSequenceClassification}
VOCABULARY = 96
KINDS = [kind for kind, architecture in ARCHITECTURES.items() if architecture.gguf]


def write(path, kind, config, draw):
    """A file of `config` with random tensors, as llama.cpp would name and shape them."""
    numbers = numpy.random.default_rng(draw.randrange(2**31))
    writer = gguf.GGUFWriter(path, kind.removesuffix("_text"))
    writer.add_name(draw.choice(["a model", "mistral-like"]))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if kind == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(3e-5)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(3e-5)
        writer.add_rope_freq_base(draw.choice([1e4, 12345.678]))
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        if hasattr(config, "query_pre_attn_scalar"):
            writer.add_key_length(config.head_dim)
            writer.add_sliding_window(config.sliding_window)
        if draw.random() < 0.5:
            writer.add_vocab_size(VOCABULARY)
    writer.add_token_list([f"w{i}é" for i in range(VOCABULARY)])
    for add, value in ((writer.add_uint8, 200), (writer.add_int8, -3), (writer.add_uint16, 60000), (writer.add_int16, -3), (writer.add_int32, -3),
                       (writer.add_uint64, 2**63), (writer.add_int64, -2**40), (writer.add_float64, 0.1), (writer.add_bool, True),
                       (writer.add_array, [1.5, 2.5]), (writer.add_array, [True, False]), (writer.add_array, ["a", ""])):
        writer_key = f"test.{add.__name__}.{type(value).__name__}.{len(str(value))}"
        add(writer_key, value)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    if draw.random() < 0.5:
        writer.add_custom_alignment(draw.choice([32, 64, 256]))
    model = transformers.AutoModelForCausalLM.from_config(config)
    parameters, names = model.state_dict(), get_gguf_hf_weights_map(model, TensorProcessor())
    for name, of_model in names.items():
        if name == "output.weight" and config.tie_word_embeddings:
            continue
        shape = list(parameters[of_model].shape)
        if kind == "gpt2" and name.startswith("blk") and len(shape) == 2:
            shape.reverse()
        values = numbers.standard_normal(shape, numpy.float32) / 8
        kind_of_values = Type.F32 if len(shape) == 1 else draw.choice(TYPES)
        writer.add_tensor(name, gguf.quants.quantize(values, kind_of_values), raw_dtype=kind_of_values)
    writer.add_tensor("rope_freqs.weight", numpy.ones(4, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Comparison:
    def __init__(self, probe, scratch):
        self.probe, self.scratch, self.tensors, self.faults = probe, scratch, 0, []

    def run(self, path, what, task, draw):
        dtype = draw.choice([None, "bfloat16", "float16"])
        model, info = AUTO[task].from_pretrained(path.parent, gguf_file=path.name, output_loading_info=True, dtype=dtype)
        unknown = ARCHITECTURES[model.config.model_type].not_found_in_gguf if task == "base" else ()
        for missing in info["missing_keys"]:
            if not missing.startswith("score") and not missing.endswith(unknown):
                self.faults.append(f"{what}: Python does not find {missing}")
        for question in ({"open": path.parent, "gguf": path.name, "task": task, "dtype": dtype or "auto"}, {"state": self.scratch / "state"}):
            if said := self.probe.ask(**question):
                self.faults.append(f"{what}: {said}")
                return
        got = safetensors.torch.load_file(self.scratch / "state" / "model.safetensors")
        for name, want in model.named_parameters():
            if name.startswith("score") or name.endswith(unknown):
                continue
            self.tensors += 1
            want = want.detach()
            if name not in got or want.dtype != got[name].dtype or not torch.equal(want, got[name]):
                self.faults.append(f"{what} {task}: {name} differs")
        if dtype is None and task == "causal_lm":
            self.logits(model, what, draw)
            self.config(model, what)

    def logits(self, model, what, draw):
        ids = torch.tensor([[draw.randrange(model.config.vocab_size) for _ in range(20)]])
        (self.scratch / "in").mkdir(exist_ok=True)
        safetensors.torch.save_file({"input_ids": ids}, self.scratch / "in" / "model.safetensors")
        if said := self.probe.ask(call=self.scratch / "in", to=self.scratch / "out"):
            self.faults.append(f"{what}: {said}")
            return
        got = safetensors.torch.load_file(self.scratch / "out" / "model.safetensors")["logits"]
        with torch.no_grad():
            off = (model.eval()(input_ids=ids).logits - got).abs().max().item()
        self.tensors += 1
        if off > 1e-4 * max(1.0, got.abs().max().item()):
            self.faults.append(f"{what}: logits off by {off:.2e}")

    def config(self, model, what):
        saved = self.scratch / "saved"
        if said := self.probe.ask(save=saved):
            self.faults.append(f"{what}: {said}")
        want, got = model.config.to_dict(), transformers.AutoConfig.from_pretrained(saved).to_dict()
        for key in want.keys() - {"architectures", "dtype", "_name_or_path", "transformers_version", "quantization_config"}:
            if want[key] != got.get(key):
                self.faults.append(f"{what}: the configuration has {key} = {got.get(key)}, Python {want[key]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--file", type=pathlib.Path)
    parser.add_argument("--least", type=int, default=1, help="how many tensors must have been compared")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    draw, probe, tensors, faults = random.Random(arguments.seed), Probe(arguments.probe), 0, []
    for round_number in range(1 if arguments.file else arguments.rounds):
        for kind in ["real"] if arguments.file else KINDS:
            with tempfile.TemporaryDirectory() as folder:
                path = arguments.file or pathlib.Path(folder) / "model.gguf"
                if not arguments.file:
                    config = ARCHITECTURES[kind].gguf(draw, {"vocab_size": VOCABULARY, "tie_word_embeddings": draw.random() < 0.5})
                    write(path, kind, config, draw)
                for task in ["causal_lm"] if arguments.file else AUTO:
                    comparison = Comparison(probe, pathlib.Path(folder))
                    comparison.run(path, f"{kind}, round {round_number}", task, draw if not arguments.file else random.Random(1))
                    tensors += comparison.tensors
                    faults += comparison.faults
    for fault in faults[:40]:
        print(fault)
    print(f"{tensors} tensors compared, {len(faults)} faults")
    return 1 if faults or tensors < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
