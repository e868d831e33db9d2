"""Fine-tunes a BERT on sayings of eight topics with Transformers' Trainer, as programs/trainer_steps.cpp, with the same flags.

usage: trainer_steps.py --model FOLDER --output_dir FOLDER [arguments of a training]
       trainer_steps.py --slices 3 …        in slices: each begins when a line comes, and ends with a report
       trainer_steps.py --unpadded …        without padding, by unpadded_bert.py
       trainer_steps.py --save_to FOLDER …  writes the model with its new head and the tokenizer, and trains nothing
"""
import dataclasses
import os
import pathlib
import sys
import time

import torch
import transformers

import measure
from unpadded_bert import UnpaddedBert

TOPICS = ["art", "computers", "food", "law", "men-women", "politics", "science", "songs-poems"]


@dataclasses.dataclass
class ScriptArguments:
    model: str
    data: str = "/usr/share/games/fortunes"
    dropout: float | None = None
    warm_up_steps: int = 10
    slices: int = 0
    slice_steps: int = 60
    unpadded: bool = False
    save_to: str | None = None


def texts_of(file):
    """The texts of a file in which lines of a single % stand between them."""
    texts, lines = [], []
    for line in file.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        if line != "%":
            lines.append(line + "\n")
        elif lines:
            texts.append("".join(lines))
            lines = []
    return texts + (["".join(lines)] if lines else [])


def load(folder, tokenizer):
    """Rows to train on and rows to test with: every fifth is for testing."""
    rows = []
    for label, topic in enumerate(TOPICS):
        encoded = tokenizer(texts_of(pathlib.Path(folder) / topic), truncation=True, max_length=128)
        rows += [dict(zip(encoded, values), label=label) for values in zip(*encoded.values())]
    return [row for i, row in enumerate(rows) if i % 5 != 4], rows[4::5]


def mixed(rows):
    """Every 1009th row, round and round: for a sequential order, since topics follow one another."""
    stride = 1009 if len(rows) % 1009 else 1
    return [rows[i * stride % len(rows)] for i in range(len(rows))]


def open_model(script):
    config = transformers.AutoConfig.from_pretrained(script.model, num_labels=len(TOPICS))
    if script.dropout is not None:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = script.dropout
    of_class = UnpaddedBert if script.unpadded else transformers.AutoModelForSequenceClassification
    return of_class.from_pretrained(script.model, config=config)


class CountingCollator:
    """Pads rows, and counts the tokens of each batch: with padding, and without."""

    def __init__(self, tokenizer):
        self.pad, self.counts = transformers.DataCollatorWithPadding(tokenizer), []

    def __call__(self, rows):
        batch = self.pad(rows)
        mask = batch["attention_mask"]
        self.counts.append((mask.numel(), mask.sum().item()))
        return batch


class Turns(transformers.TrainerCallback):
    """Lets a training go on slice by slice. Every rank has one; rank 0's reads and reports."""

    def __init__(self, script, trainer, collator, rows):
        self.script, self.trainer, self.collator, self.rows = script, trainer, collator, rows
        self.started = 0.0

    def on_step_end(self, args, state, control, **kwargs):
        step = state.global_step - self.script.warm_up_steps
        if step < 0 or step % self.script.slice_steps:
            return
        values = self.ready() if step == 0 else self.slice(state.global_step)
        if state.is_world_process_zero:
            measure.report(**values)
        if state.global_step < state.max_steps:
            self.await_turn(state.is_world_process_zero)

    def ready(self):
        pids = self.trainer.accelerator.gather(torch.tensor([os.getpid()]))
        return {"pids": pids.tolist(), "threads": torch.get_num_threads(), "rows": self.rows}

    def slice(self, steps_done):
        seconds = time.perf_counter() - self.started
        padded, real = map(sum, zip(*self.collator.counts[steps_done - self.script.slice_steps:steps_done]))
        return {"slice_seconds": seconds, "padded_tokens": padded, "real_tokens": real}

    def await_turn(self, reads):
        if reads and not sys.stdin.readline():
            raise SystemExit("trainer_steps.py: standard input ended before all slices were trained")
        self.trainer.accelerator.wait_for_everyone()
        self.started = time.perf_counter()


def outcome(history, rows):
    """What a training without slices has to tell."""
    values = {"losses": [logs["loss"] for logs in history if "loss" in logs], "rows": rows}
    for logs in history:
        values |= {name: float(logs[name]) for name in ("eval_loss", "eval_accuracy") if name in logs}
    return values


def accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).mean()}


def run(args, script):
    if script.slices:
        args.max_steps = script.warm_up_steps + script.slices * script.slice_steps
    transformers.set_seed(args.seed)  # Of the new head.
    tokenizer = transformers.AutoTokenizer.from_pretrained(script.model)
    model = open_model(script)
    if script.save_to:
        model.save_pretrained(script.save_to)
        tokenizer.save_pretrained(script.save_to)
        return
    train, test = load(script.data, tokenizer)
    rows, collator = [len(train), len(test)], CountingCollator(tokenizer)
    trainer = transformers.Trainer(model=model, args=args, train_dataset=mixed(train), eval_dataset=test, processing_class=tokenizer,
                                   data_collator=collator, compute_metrics=accuracy)
    for printing in (transformers.PrinterCallback, transformers.ProgressCallback):
        trainer.remove_callback(printing)
    if script.slices:
        trainer.add_callback(Turns(script, trainer, collator, rows))
    trainer.train()
    if not script.slices and trainer.is_world_process_zero():
        measure.report(**outcome(trainer.state.log_history, rows))
    trainer.accelerator.end_training()


transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
run(*transformers.HfArgumentParser((transformers.TrainingArguments, ScriptArguments)).parse_args_into_dataclasses())
