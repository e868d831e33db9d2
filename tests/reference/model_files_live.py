#!/usr/bin/env python3
"""Compares what models read, make and write with Transformers: new weights by seed, files, embeddings of another size.

usage: model_files_live.py PROBE [--seed S] [--rounds N] [--only TYPE]

Of each architecture: config.json may have other names of keys, as attribute_map has them; a new model from a seed, and a new head on the weights of a bare model, are Python's to the bit; embeddings get
other sizes as in Python; and Python opens every folder that save_pretrained() wrote, whole or in shards, without a missing or
unexpected name, and finds the same bits. Exits 1 and prints the differences; prints how many tensors were compared.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

from architectures import ARCHITECTURES, KINDS, VOCABULARY, config_of
from models_live import Probe, safetensors, torch, transformers


def without_ties(model):
    """The parameters of `model` by their first names."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


class Files:
    def __init__(self, probe, scratch, counts):
        self.probe, self.scratch, self.counts, self.faults = probe, scratch, counts, []

    def ask(self, **question):
        said = self.probe.ask(**question)
        if said:
            self.faults.append(f"{self.where}: {question}: {said}")

    def state(self):
        self.ask(state=self.scratch / "state")
        return safetensors.torch.load_file(self.scratch / "state" / "model.safetensors")

    def same(self, what, want, got, tolerance=0.0):
        """`got` may have a tied parameter under further names."""
        for name, tensor in want.items():
            self.counts["tensors"] += 1
            if name not in got or tensor.shape != got[name].shape or tensor.dtype != got[name].dtype:
                self.faults.append(f"{self.where}: {what}: {name} {'has ' + str(list(got[name].shape)) if name in got else 'is missing'}")
            elif not torch.allclose(tensor, got[name], rtol=0, atol=tolerance):
                self.faults.append(f"{self.where}: {what}: {name} off by {(tensor - got[name]).abs().max():.2e}")

    def compare(self, kind, task, draw):
        self.where = f"{kind} {task}"
        auto, seed = getattr(transformers, ARCHITECTURES[kind].heads[task]), draw.randrange(2**31)
        config = config_of(kind, draw)
        if task in ("sequence_classification", "token_classification"):
            # Python writes no two labels, and reads three in a BART that does not say.
            config.num_labels = draw.choice([2, 5] if kind != "bart" else [3, 5])
        folder = self.scratch / "model"
        torch.manual_seed(seed)
        model = auto.from_config(config)
        model.save_pretrained(folder)
        self.ask(make=folder, task=task, seed=seed)
        if task == "base" or not ARCHITECTURES[kind].makes_head_first:
            self.same("a new model", without_ties(model), self.state())
        self.new_head(auto, task, config, draw)
        self.aliased(auto, task, folder)
        self.ask(open=folder, task=task)
        self.resized(model, kind, draw)
        self.written(auto, draw)

    def aliased(self, auto, task, folder):
        """A config.json with each key under the other name that Transformers knows; where both are there, that one counts."""
        original = (folder / "config.json").read_text()
        for alias, key in auto.from_pretrained(folder).config.attribute_map.items():
            for extra in ({}, {key: 1}):
                text = json.loads(original)
                (folder / "config.json").write_text(json.dumps({name: value for name, value in text.items() if name != key} | {alias: text[key]} | extra))
                self.ask(open=folder, task=task)
                self.same(f"{alias} for {key}", without_ties(auto.from_pretrained(folder)), self.state())
        (folder / "config.json").write_text(original)

    def new_head(self, auto, task, config, draw):
        """The weights of a bare model under a head."""
        bare, seed, dtype = self.scratch / "bare", draw.randrange(2**31), draw.choice(["float32", "bfloat16", "float16"])
        transformers.AutoModel.from_config(config).save_pretrained(bare)
        torch.manual_seed(seed)
        model = auto.from_pretrained(bare, num_labels=3, dtype=dtype) if task.endswith("classification") else auto.from_pretrained(bare, dtype=dtype)
        extra = {"num_labels": 3} if task.endswith("classification") else {}
        self.ask(open=bare, task=task, seed=seed, dtype=dtype, **extra)
        self.same(f"a new head in {dtype}", without_ties(model), self.state())

    def resized(self, model, kind, draw):
        tokens, mean, seed = draw.choice([VOCABULARY + 1, VOCABULARY + 60, VOCABULARY - 30]), draw.random() < 0.5, draw.randrange(2**31)
        torch.manual_seed(seed)
        model.resize_token_embeddings(tokens, mean_resizing=mean)
        self.ask(resize=tokens, seed=seed, mean=mean)
        # Around a mean: the noise is three hundred-thousandths of the deviation, its factor rounded.
        want = without_ties(model)
        if not model.config.tie_word_embeddings:
            for name in ARCHITECTURES[kind].unread:  # Transformers leaves them at the old size, so that its file does not fit.
                want.pop(name, None)
        self.same(f"{tokens} tokens, mean {mean}", want, self.state(), 2e-5 if mean else 1e-6)

    def written(self, auto, draw):
        saved = self.scratch / "saved"
        self.ask(save=saved, max_shard_size=draw.choice(["50GB", "9KB", "30KB"]))
        model, info = auto.from_pretrained(saved, output_loading_info=True, dtype="auto")
        for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if info[what]:
                self.faults.append(f"{self.where}: Python finds {what} {sorted(info[what])}")
        self.same("written", without_ties(model), self.state())
        text = json.loads((saved / "config.json").read_text())
        if text["architectures"] != [type(model).__name__]:
            self.faults.append(f"{self.where}: config.json says {text['architectures']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--least", type=int, default=1, help="how many tensors must have been compared")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    draw, counts, faults = random.Random(arguments.seed), {"tensors": 0}, []
    probe = Probe(arguments.probe)
    for _ in range(arguments.rounds):
        for kind in [arguments.only] if arguments.only else KINDS:
            for task in ARCHITECTURES[kind].heads:
                with tempfile.TemporaryDirectory() as scratch:
                    files = Files(probe, pathlib.Path(scratch), counts)
                    files.compare(kind, task, draw)
                    faults += files.faults
    for fault in faults[:40]:
        print(fault)
    print(f"{counts['tensors']} tensors compared, {len(faults)} faults")
    return 1 if faults or counts["tensors"] < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
