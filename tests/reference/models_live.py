#!/usr/bin/env python3
"""Compares models with Transformers': outputs, losses and gradients of small random checkpoints that Transformers wrote.

usage: models_live.py PROBE [--seed S] [--rounds N] [--only TYPE]

Each architecture with each head gets batches without padding, with padding on the right and on the left, with holes in the
mask; through both attention back ends; with padding dropped and computed. Some have several sequences in a row, which position_ids
tell apart: decoders of Transformers see that by themselves if there is no mask and no cache, else they get a mask of sequences.
Compared where the attention mask is not zero. A BERT with each activation is compared too.
Exits 1 and prints the differences; prints how many tensors were compared.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import safetensors.torch
    import torch
    import transformers
    from transformers.activations import ACT2FN
    from transformers.trainer_pt_utils import LabelSmoother
except ImportError as error:
    print(f"skipped: the originals are missing: {error}")
    sys.exit(77)

from architectures import ARCHITECTURES, KINDS, VOCABULARY, attention_of, config_of


def positions_of(mask, packs, draw):
    """Positions, and the number of each token's sequence."""
    positions, numbers = torch.zeros_like(mask), torch.zeros_like(mask)
    for row, kept in enumerate(mask):
        position, last, number = draw.randint(0, 5) - 1, None, 0
        for place, is_kept in enumerate(kept.tolist()):
            position += 1
            if packs and is_kept and last is not None and draw.random() < 0.25:
                position, number = draw.randint(0, min(last, 5)), number + 1
            if is_kept:
                last = position
            positions[row, place], numbers[row, place] = position, number
    return positions, numbers


def averages(task, config):
    """Whether the head reads the mean of a row, for which Transformers' asks the mask."""
    return task in ("sequence_classification", "multiple_choice") and getattr(config, "classifier_pooling", None) == "mean"


def told_to_python(inputs, numbers, kind, eager, config, task):
    """The inputs with which Transformers computes what we do where rows have the sequences `numbers`."""
    is_causal = not ARCHITECTURES[kind].is_encoder
    if averages(task, config) and "attention_mask" not in inputs:
        inputs = inputs | {"attention_mask": torch.ones_like(inputs["input_ids"])}
    if numbers is None or (is_causal and "attention_mask" not in inputs):
        return inputs
    seen = numbers[:, :, None] == numbers[:, None, :]
    if "attention_mask" in inputs:
        seen = seen & inputs["attention_mask"].bool()[:, None, :]
    seen = (seen.tril() if is_causal else seen)[:, None]

    def mask_of(seen):
        return torch.where(seen, 0.0, torch.finfo(torch.float32).min) if eager else seen
    if not ARCHITECTURES[kind].has_windows or is_causal:
        return inputs | {"attention_mask": mask_of(seen)}
    place = torch.arange(numbers.shape[1])
    near = (place[:, None] - place[None, :]).abs() <= config.sliding_window
    return inputs | {"attention_mask": {"full_attention": mask_of(seen), "sliding_attention": mask_of(seen & near)}}


def text_of(rows, draw, mask_kind):
    """Random words, and their mask."""
    length = draw.randint(2, 20)
    mask = torch.ones((rows, length), dtype=torch.int64)
    for row in mask:
        count = draw.randint(1, length)
        if mask_kind == "right":
            row[count:] = 0
        elif mask_kind == "left":
            row[:length - count] = 0
        elif mask_kind == "holes":
            row[:] = torch.tensor([1] + [int(draw.random() < 0.6) for _ in range(length - 1)])
    return torch.where(mask == 1, torch.randint(2, VOCABULARY, mask.shape), 1), mask


def seq2seq_batch_of(task, draw, mask_kind):
    """A batch of an encoder-decoder model, and the masks of both sides."""
    rows = draw.randint(1, 5)
    ids, mask = text_of(rows, draw, mask_kind)
    inputs = {"input_ids": ids} | ({} if mask_kind == "none" else {"attention_mask": mask})
    if task == "sequence_classification":  # By the last token of 2, as many in each row.
        ids[ids == 2] = 3
        for row, kept in zip(ids, mask):
            row[draw.choice(kept.nonzero().flatten().tolist())] = 2
    if task in ("sequence_classification", "question_answering"):
        masks = {"encoder": mask, "decoder": torch.ones_like(mask)}
        if task == "sequence_classification":
            return inputs | ({"labels": torch.randint(0, 3, (rows,))} if draw.random() < 0.8 else {}), masks
        return inputs | dict(zip(("start_positions", "end_positions"), torch.randint(0, ids.shape[1], (2, rows)))), masks
    decoder_kind = draw.choice(["none", "none", "right", "left", "holes"])
    words, decoder_mask = text_of(rows, draw, decoder_kind)
    if decoder_kind != "none":
        inputs["decoder_attention_mask"] = decoder_mask
    if task == "base" or draw.random() < 0.2:
        return inputs | {"decoder_input_ids": words}, {"encoder": mask, "decoder": decoder_mask}
    keep = decoder_mask.bool() if draw.random() < 0.7 else torch.ones_like(decoder_mask).bool()
    inputs["labels"] = torch.where(keep & (torch.rand(words.shape) < 0.8), torch.randint(0, VOCABULARY, words.shape), -100)
    inputs["labels"][0, -1 if decoder_kind == "left" else 0] = 2
    if draw.random() < 0.3:
        inputs["decoder_input_ids"] = words
    return inputs, {"encoder": mask, "decoder": decoder_mask}


def batch_of(task, draw, mask_kind, kind, config):
    if ARCHITECTURES[kind].is_seq2seq:
        return *seq2seq_batch_of(task, draw, mask_kind), None
    rows, length = draw.randint(1, 5), draw.randint(2, 20)
    choices = draw.randint(2, 3) if task == "multiple_choice" else None
    shape = (rows * (choices or 1), length)
    ids = torch.randint(2, VOCABULARY, shape)
    mask = torch.ones(shape, dtype=torch.int64)
    for row in mask:
        count = draw.randint(1, length)
        if mask_kind == "right":
            row[count:] = 0
        elif mask_kind == "left":
            row[:length - count] = 0
        elif mask_kind == "holes":
            row[:] = torch.tensor([1] + [int(draw.random() < 0.6) for _ in range(length - 1)])
    ids = torch.where(mask == 1, ids, 1)
    inputs = {"input_ids": ids}
    if mask_kind != "none":
        inputs["attention_mask"] = mask
    if draw.random() < 0.5 and ARCHITECTURES[kind].has_token_types:
        inputs["token_type_ids"] = torch.randint(0, 2, shape)
    numbers = None
    if draw.random() < 0.4 and (not choices or ARCHITECTURES[kind].takes_positions_of_choices):
        # A mask of Transformers' that tells sequences has no place for choices, means and windows of decoders.
        fits = ARCHITECTURES[kind].tells_sequences and (mask_kind == "none" or not ARCHITECTURES[kind].has_windows or ARCHITECTURES[kind].is_encoder)
        packs = draw.random() < 0.7 and not choices and fits and not averages(task, config)
        inputs["position_ids"], numbers = positions_of(mask, packs, draw)
        numbers = numbers if packs else None
    if choices:
        inputs = {name: tensor.view(rows, choices, length) for name, tensor in inputs.items()}
    with_labels = draw.random() < 0.8
    if not with_labels or task == "base":
        return inputs, mask, numbers
    if task == "sequence_classification":
        inputs["labels"] = torch.randint(0, 3, (rows,))
    elif task == "multiple_choice":
        inputs["labels"] = torch.randint(0, choices, (rows,))
    elif task == "question_answering":
        inputs["start_positions"], inputs["end_positions"] = torch.randint(0, length + 2, (2, rows))
        inputs["start_positions"][0] = inputs["end_positions"][0] = 0
    else:
        labels = torch.randint(0, 3 if task == "token_classification" else VOCABULARY, shape)
        keep = mask.bool() if draw.random() < 0.7 else torch.ones_like(mask).bool()
        if task == "causal_lm" and mask_kind == "left" and draw.random() < 0.5:  # The first token has nothing before it.
            keep = keep & torch.cat([torch.zeros_like(mask[:, :1]), mask[:, :-1]], 1).bool()
        inputs["labels"] = torch.where(keep & (torch.rand(shape) < 0.8), labels, -100)
        inputs["labels"][0, -1 if mask_kind == "left" else 0] = 2
        if task == "causal_lm":
            inputs["labels"][0, -1] = 2
    return inputs, mask, numbers


class Probe:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, **question):
        self.process.stdin.write(json.dumps({key: str(value) if isinstance(value, pathlib.Path) else value for key, value in question.items()}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the probe ended: {self.process.stderr.read()[-2000:]}")
        return json.loads(line)


def plan_differs(probe, model):
    """How our plan for parallel ranks differs from Transformers', where that has one."""
    base, prefix = model.base_model, "" if model.base_model is model else f"{model.base_model_prefix}."
    if base.config.base_model_tp_plan is None:
        return None
    want = {prefix + name: cut for name, cut in base.config.base_model_tp_plan.items()} | dict(type(model)._tp_plan or {})
    # Norms have no matrix to cut. Where one norms all heads together, we cut no attention.
    norms_all_heads = model.config.model_type == "olmo2"
    want = {name: cut for name, cut in want.items() if not cut.startswith("replicated") and not (norms_all_heads and ".self_attn." in name)}
    stages = [prefix + name for name in base.config.base_model_pp_plan]
    got = probe.ask(plan=True)
    of_base = [name.removesuffix(".*") for group in got["pipeline"] for name in group][:len(stages)]
    return None if got["tensor"] == want and of_base == stages else f"the plan is {got}, Python's {want}, {stages}"


def expected_of(model, inputs, hidden, attentions, smoothing):
    model.zero_grad()
    output = model(**inputs, output_hidden_states=hidden, output_attentions=attentions)
    if smoothing:
        smoother = LabelSmoother(epsilon=smoothing["smoothing"])
        output["smoothed"] = smoother(output, inputs["labels"], shift_labels=smoothing["shift_labels"])
    tensors = {name: getattr(output, name) for name in ("loss", "logits", "last_hidden_state", "pooler_output", "start_logits", "end_logits", "smoothed", "encoder_last_hidden_state")
               if getattr(output, name, None) is not None}
    lists = [(f"{side}{name}", asked) for side in ("", "encoder_", "decoder_") for name, asked in (("hidden_states", hidden), ("attentions", attentions))]
    for name, asked in lists + [("cross_attentions", attentions)]:
        for i, tensor in enumerate(getattr(output, name, None) or () if asked else ()):
            tensors[f"{name}.{i}"] = tensor
    if "loss" in tensors and torch.isfinite(tensors["loss"]):
        tensors["loss"].backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensors[f"grad.{name}"] = parameter.grad
    return {name: tensor.detach() for name, tensor in tensors.items()}


def difference(name, want, got, mask):
    """The largest difference at attended places, relative to the largest value."""
    if isinstance(mask, dict):
        mask = mask["encoder" if name.startswith("encoder_") else "decoder"]
    mask = mask.view(-1, mask.shape[-1])
    name = name.removeprefix("encoder_").removeprefix("decoder_").removeprefix("cross_")
    if want.shape != got.shape:
        return f"shape {tuple(want.shape)} and {tuple(got.shape)}"
    if want.dim() >= 2 and tuple(want.shape[:2]) == tuple(mask.shape) and name.split(".")[0] in ("logits", "last_hidden_state", "hidden_states", "start_logits", "end_logits"):
        want, got = want[mask.bool()], got[mask.bool()]
    if name.startswith("attentions"):
        want, got = want.transpose(1, 2)[mask.bool()], got.transpose(1, 2)[mask.bool()]
    scale = max(1.0, want.abs().max().item()) if want.numel() else 1.0
    off = (want - got).abs().max().item() / scale if want.numel() else 0.0
    return None if off <= 1e-4 else f"off by {off:.2e}"


def compare(probe, kind, task, draw, scratch, counts, **keys):
    config, heads = config_of(kind, draw), ARCHITECTURES[kind].heads
    for key, value in keys.items():
        setattr(config, key, value)
    if task in ("sequence_classification", "token_classification"):
        config.num_labels = 3
    torch.manual_seed(draw.randrange(2**31))
    model = getattr(transformers, heads[task]).from_config(config)
    with torch.no_grad():  # Biases and norms of new models are all alike.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if kind == "t5" and task == "seq2seq_lm" and draw.random() < 0.4:  # As files of T5 v1.1.
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    folder = scratch / "model"
    model.save_pretrained(folder)
    faults = []
    for attention in ("sdpa", "eager"):
        theirs = attention_of(config, attention)
        if theirs != attention and getattr(config, "attn_logit_softcapping", 0) is None:
            attention = theirs  # Padding that sees nothing, and has a label, is to one not what it is to the other.
        model = getattr(transformers, heads[task]).from_pretrained(folder, attn_implementation=theirs)
        for drops in (True, False):
            said = probe.ask(open=folder, task=task, attention=attention, drops_padding=drops)
            if said:
                return [f"{kind} {task}: {said}"]
            if drops and (fault := plan_differs(probe, model)):
                faults.append(f"{kind} {task}: {fault}")
            for mask_kind in ("none", "right", "left", "holes"):
                inputs, mask, numbers = batch_of(task, draw, mask_kind, kind, config)
                if kind == "deberta-v2" and "attention_mask" in inputs and numbers is None and draw.random() < 0.3:  # Embeddings are multiplied by it.
                    inputs["attention_mask"] = inputs["attention_mask"] * torch.randint(1, 4, inputs["attention_mask"].shape)
                hidden, attentions = draw.random() < 0.4, attention == "eager" and draw.random() < 0.4
                smoothing = {}
                if "labels" in inputs and draw.random() < 0.5 and not getattr(config, "sparse_prediction", False):  # Transformers fails.
                    smoothing = {"smoothing": draw.choice([0.05, 0.3]), "shift_labels": task == "causal_lm"}
                model.config.use_cache = False
                want = expected_of(model, told_to_python(inputs, numbers, kind, theirs == "eager", config, task), hidden, attentions, smoothing)
                safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, scratch / "in.safetensors")
                training = {"trains": draw.random() < 0.5, "recomputes": draw.random() < 0.5} if ARCHITECTURES[kind].is_seq2seq else {}
                said = probe.ask(call=scratch / "in.safetensors", to=scratch / "out", hidden_states=hidden, attentions=attentions, **smoothing, **training)
                where = f"{kind} {task} {attention} {'dropped' if drops else 'padded'} {mask_kind} {'one sequence a row' if numbers is None else 'packed'} {({n: list(t.shape) for n, t in inputs.items()})}"
                if said:
                    faults.append(f"{where}: {said}")
                    continue
                got = safetensors.torch.load_file(scratch / "out" / "model.safetensors")
                if "loss" in want and not torch.isfinite(want["loss"]):
                    want = {name: tensor for name, tensor in want.items() if name not in ("loss", "smoothed")}
                    got = {name: tensor for name, tensor in got.items() if name not in ("loss", "smoothed") and not name.startswith("grad.")}
                for name in sorted(want.keys() | got.keys()):
                    if name not in want or name not in got:
                        faults.append(f"{where}: {name} only {'here' if name in got else 'in Python'}")
                    elif off := difference(name, want[name], got[name], mask):
                        faults.append(f"{where}: {name} {off}")
                    counts["tensors"] += 1
                counts["batches"] += 1
    return faults


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
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    draw, counts, faults = random.Random(arguments.seed), {"tensors": 0, "batches": 0}, []
    torch.manual_seed(arguments.seed)
    probe = Probe(arguments.probe)
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(arguments.rounds):
            for kind in [arguments.only] if arguments.only else KINDS:
                for task in ARCHITECTURES[kind].heads:
                    faults += compare(probe, kind, task, draw, pathlib.Path(scratch), counts)
        for act in [] if arguments.only else sorted(ACT2FN.keys() - {"prelu", "xielu"}):  # Those have weights.
            faults += compare(probe, "bert", "masked_lm", draw, pathlib.Path(scratch), counts, hidden_act=act)
    for fault in faults[:40]:
        print(fault)
    print(f"{counts['tensors']} tensors of {counts['batches']} batches compared, {len(faults)} differ")
    return 1 if faults or counts["tensors"] < arguments.least else 0


if __name__ == "__main__":
    sys.exit(main())
