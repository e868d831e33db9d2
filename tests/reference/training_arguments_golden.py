#!/usr/bin/env python3
"""Writes training_arguments.json: what Transformers' TrainingArguments make of arguments.

`fields`: name and default of each field. `base`: to_dict() of no arguments. `rows`: `arguments`, and `changed` (how
to_dict() of what they make differs from the base) or `error`. `command_lines`: the same of `argv` through HfArgumentParser. `sharding`: `fsdp` and `fsdp_config`, and the arguments
of the sharding plugin or `error`. `precision`: `arguments`, the launcher's variable, and the mixed precision.

  python tests/reference/training_arguments_golden.py [output.json] [seed]
"""
import contextlib
import copy
import dataclasses
import io
import json
import logging
import os
import pathlib
import random
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from transformers import HfArgumentParser, TrainingArguments  # noqa: E402

VARIABLE = "ACCELERATE_MIXED_PRECISION"

# name: values of which a row may take one
VALUES = {
    "output_dir": ["out", "a/b", "~/runs"],
    "learning_rate": [2e-5, 1e-3, 0.0, 1],
    "per_device_train_batch_size": [1, 16],
    "per_device_eval_batch_size": [2, 32],
    "num_train_epochs": [1, 2.5, 3.0],
    "weight_decay": [0.0, 0.01],
    "max_steps": [-1, 0, 100],
    "max_grad_norm": [0.0, 1.0, 5],
    "lr_scheduler_type": ["linear", "cosine", "constant", "reduce_lr_on_plateau", "greedy", "polynomial", "triangular"],
    "lr_scheduler_kwargs": [None, {"num_cycles": 2}, {}],
    "warmup_steps": [0, 10, 0.1, 0.99, -1],
    "optim": ["adamw_torch", "sgd", "adafactor", "adagrad", "rmsprop", "adamx"],
    "optim_args": [None, "momentum=0.9"],
    "adam_beta1": [0.8], "adam_beta2": [0.95], "adam_epsilon": [1e-6],
    "label_smoothing_factor": [0.0, 0.1],
    "average_tokens_across_devices": [False],
    "bf16": [True], "fp16": [True], "bf16_full_eval": [True], "fp16_full_eval": [True],
    "gradient_checkpointing": [True, False], "activation_checkpointing": [True, False],
    "torch_empty_cache_steps": [1, 10, 0, -3],
    "neftune_noise_alpha": [None, 5.0],
    "auto_find_batch_size": [True],
    "logging_strategy": ["no", "steps", "epoch", "never"],
    "logging_steps": [1, 10, 0.25, 0, 500, 2.5],
    "logging_first_step": [True],
    "include_num_input_tokens_seen": [True, False, "all", "non_padding", "no"],
    "report_to": ["none", "tensorboard", ["tensorboard"], []],
    "disable_tqdm": [True, False],
    "log_level": ["debug", "warning"],
    "eval_strategy": ["no", "steps", "epoch", "steps", "epoch", "best"],
    "eval_steps": [None, 10, 50, 0.1, 0.2, 0.25, 100, 2.5],
    "eval_delay": [0, 2, 1.5],
    "prediction_loss_only": [True],
    "eval_accumulation_steps": [None, 4],
    "include_for_metrics": [["inputs"], ["inputs", "loss"]],
    "label_names": [["labels"], ["a", "b"]],
    "save_strategy": ["no", "steps", "epoch", "best", "epoch", "steps", "always"],
    "save_steps": [10, 100, 0.5, 0.3, 0.2, 500, 7.5],
    "save_total_limit": [None, 2],
    "load_best_model_at_end": [True, True, False],
    "metric_for_best_model": [None, "loss", "accuracy", "eval_loss", "eval_f1"],
    "greater_is_better": [None, True, False],
    "resume_from_checkpoint": [None, "out/checkpoint-3"],
    "seed": [0, 7], "data_seed": [None, 3],
    "dataloader_num_workers": [0, 2],
    "dataloader_prefetch_factor": [None, 2],
    "dataloader_pin_memory": [True, False],
    "train_sampling_strategy": ["random", "sequential", "group_by_length", "batch_rebalance"],
    "ddp_timeout": [60], "ddp_bucket_cap_mb": [None, 50], "ddp_find_unused_parameters": [True, False],
    "accelerator_config": [None, {"split_batches": True}, {"even_batches": False, "dispatch_batches": True},
                           {"use_seedable_sampler": False, "non_blocking": True}],
    "push_to_hub": [True], "hub_strategy": ["end", "checkpoint", "all_checkpoints", "sometimes"],
    "hub_model_id": ["me/model"], "hub_token": ["secret"], "hub_private_repo": [True, None],
    "run_name": ["a run"], "project": ["mine"],
    "dataloader_in_order": [True], "skip_memory_metrics": [True], "local_rank": [-1],
    "gradient_checkpointing_kwargs": [None, {"use_reentrant": False}],
}

# Combinations that one field alone does not reach.
COMBINED = [
    {"load_best_model_at_end": True, "eval_strategy": e, "save_strategy": s}
    for e in ("no", "steps", "epoch") for s in ("no", "steps", "epoch", "best")
] + [
    {"load_best_model_at_end": True, "eval_strategy": "steps", "save_strategy": "steps", "eval_steps": e, "save_steps": s}
    for e in (None, 10, 100, 0.1, 0.2, 0.25, 1) for s in (10, 30, 500, 0.2, 0.25, 0.5, 0.3, 1)
] + [
    {"lr_scheduler_type": t, "eval_strategy": e} for t in ("reduce_lr_on_plateau", "greedy") for e in ("no", "epoch")
] + [{"fp16": True, "bf16": True}, {"fp16_full_eval": True, "bf16_full_eval": True},
     {"dataloader_prefetch_factor": 2}, {"dataloader_prefetch_factor": 2, "dataloader_num_workers": 1},
     {"eval_strategy": "steps", "logging_steps": 0, "logging_strategy": "no"},
     {"eval_strategy": "steps", "logging_steps": 0.25}]

ARGV = [
    "--output_dir out --learning_rate 2e-5", "--learning-rate=2e-5", "--push_to_hub", "--push_to_hub true",
    "--push_to_hub False", "--push_to_hub=yes", "--no_remove_unused_columns", "--no-dataloader-pin-memory",
    "--remove_unused_columns false", "--max_steps -1", "--max_steps=-1", "--seed 1 --seed 2", "--label_names a b c",
    "--include_for_metrics inputs loss", "--eval_strategy epoch --save_strategy epoch --load_best_model_at_end",
    "--eval_strategy epoch --load_best_model_at_end", "--logging_steps 0.1", "--learning_rate fast", "--seed",
    "--no_such_flag 1", "--push_to_hub perhaps", "--num_train_epochs 1.5", "--optim sgd", "--optim unknown",
    "--lr_scheduler_type cosine --warmup_steps 0.1", "--per_device_train_batch_size 1e1", "--tf32 false --disable_tqdm true",
    "--report_to none", "--run_name two", "--metric_for_best_model accuracy", "--greater_is_better true",
    "--dataloader_num_workers 2 --dataloader_prefetch_factor 4", "--ddp_find_unused_parameters false", "stray",
    "--do_train --do_eval true --do_predict False", "--full_determinism --seed=3", "--bf16_full_eval --fp16_full_eval",
    "--log_level=error --log_level_replica info", "--hub_strategy end", "--hub_strategy=never",
]

STRATEGIES = [True, "full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2", "no_shard", "full_shard offload",
              "shard_grad_op auto_wrap", "offload", ["full_shard", "offload"], "half_shard", "full_shard auto_wrap offload"]
CONFIGS = [
    {}, {"fsdp_transformer_layer_cls_to_wrap": "BertLayer"}, {"transformer_layer_cls_to_wrap": ["A", "B"]},
    {"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 2000}, {"auto_wrap_policy": "NO_WRAP"},
    {"auto_wrap_policy": "SOME_WRAP"}, {"state_dict_type": "SHARDED_STATE_DICT"}, {"cpu_ram_efficient_loading": "true"},
    {"cpu_ram_efficient_loading": True, "sync_module_states": True}, {"cpu_offload": True}, {"fsdp_cpu_offload": False},
    {"xla": False, "limit_all_gathers": True},
]
VERSIONS = {1: [{"backward_prefetch": "backward_pre"}, {"fsdp_forward_prefetch": "true"}, {"use_orig_params": False},
                {"sync_module_states": "false"}, {"reshard_after_forward": "shard_grad_op"}],
            2: [{"reshard_after_forward": False}, {"reshard_after_forward": "true"}]}


def outcome(make, base):
    """How what `make` makes differs from `base`, or {"error": …}; argparse says what is wrong on stderr and exits."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            made = make().to_dict()
        return {"changed": {name: value for name, value in made.items() if value != base[name]}}
    except SystemExit:
        return {"error": said.getvalue().strip().splitlines()[-1]}
    except Exception as error:  # whatever type: the row says that it is refused
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def field_rows():
    rows = []
    for field in dataclasses.fields(TrainingArguments):
        factory = field.default_factory is not dataclasses.MISSING
        rows.append({"name": field.name, "default": field.default_factory() if factory else field.default})
    return rows


def argument_rows(base, seed):
    def constructed(arguments):
        made = outcome(lambda: TrainingArguments(use_cpu=True, **copy.deepcopy(arguments)), base)
        return {"arguments": arguments, **made}

    rows = [constructed({name: value}) for name, values in VALUES.items() for value in values]
    rows += [constructed(arguments) for arguments in COMBINED]
    generator = random.Random(seed)
    for _ in range(200):
        names = generator.sample(sorted(VALUES), generator.randint(2, 8))
        rows.append(constructed({name: generator.choice(VALUES[name]) for name in names}))
    return rows


def command_line_rows(base):
    parser = HfArgumentParser(TrainingArguments)
    rows = []
    for line in ARGV:
        argv = ["--use_cpu", *line.split()]
        made = outcome(lambda: parser.parse_args_into_dataclasses(argv, look_for_args_file=False)[0], base)
        rows.append({"argv": argv, **made})
    return rows


def sharding_row(fsdp, config):
    row = {"fsdp": fsdp, "fsdp_config": config}
    try:
        args = TrainingArguments(use_cpu=True, fsdp=copy.deepcopy(fsdp), fsdp_config=copy.deepcopy(config))
        row["plugin"] = args.fsdp_plugin_args
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    os.environ.pop("FSDP_CPU_RAM_EFFICIENT_LOADING", None)
    return row


def sharding_rows():
    rows = []
    for version, configs in VERSIONS.items():
        rows += [sharding_row(fsdp, {"version": version}) for fsdp in STRATEGIES]
        rows += [sharding_row(True, {"fsdp_version": version, **config}) for config in CONFIGS + configs]
        rows += [sharding_row("offload", {"fsdp_version": version, **config}) for config in CONFIGS + configs]
    return rows


def precision_rows():
    rows = []
    for word in (None, "no", "bf16", "fp16"):
        for arguments in ({}, {"bf16": True}, {"fp16": True}):
            os.environ.pop(VARIABLE, None)
            if word:
                os.environ[VARIABLE] = word
            args = TrainingArguments(use_cpu=True, **arguments)
            rows.append({"arguments": arguments, "launcher": word, "mixed_precision": args.mixed_precision})
    os.environ.pop(VARIABLE, None)
    return rows


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("training_arguments.json")
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    os.environ["HOME"] = "/home/somebody"
    base = TrainingArguments(use_cpu=True).to_dict()
    parts = {"fields": field_rows(), "rows": argument_rows(base, seed), "command_lines": command_line_rows(base),
             "sharding": sharding_rows(), "precision": precision_rows()}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in parts.items()]
    output.write_text("{\n" + ",\n".join([f'"base": {json.dumps(base)}', *lines]) + "\n}\n")


main()
