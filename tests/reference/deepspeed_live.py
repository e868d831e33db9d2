#!/usr/bin/env python3
"""Trains small models with Python Accelerate over DeepSpeed, and compares a native program with them.

usage: deepspeed_live.py PROGRAM [--seed N] [--all] [--only WORD] [--save FILE]

PROGRAM is build/dev/tests/test_sharded, whose suite DeepSpeedRuns repeats the runs. Two ranks talk through Gloo on the
CPU. Without --all the runs are a part of the cross product in which every pair of settings occurs. --save keeps the
runs: `--save tests/reference/deepspeed_runs.json` writes the golden file that the suite repeats by default.

Needs an environment with deepspeed==0.19.8 and accelerate==1.15.0, and a C++ compiler, with which DeepSpeed builds its
operators at the first run:

    python3 -m venv .cache/deepspeed
    .cache/deepspeed/bin/pip install torch==2.13.0 ninja setuptools wheel py-cpuinfo numpy accelerate==1.15.0
    DS_ACCELERATOR=cpu .cache/deepspeed/bin/pip install --no-build-isolation deepspeed==0.19.8
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

RANKS, ROWS, STEPS = 2, 4, 7
SIZES = (6, 16, 12, 3)
RATE = 0.02

STAGES = (0, 1, 2, 3)
ACCUMULATIONS = (1, 3)
CLIPPINGS = (0, 0.5, "auto", "absent")
OFFLOADS = ("none", "cpu")
SCHEDULES = ("none", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle")
PRECISIONS = ("no", "bf16", "fp16")
OPTIMIZERS = ("Adam", "AdamW", "SGD", "Adagrad", "Lion", "Muon")

OPTIONS = {
    "Adam": {"lr": "auto", "betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": "auto", "adam_w_mode": False},
    "AdamW": {"lr": "auto", "weight_decay": "auto"},
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adagrad": {"lr": 0.05, "lr_decay": 0.1},
    "Lion": {"lr": 0.002, "betas": [0.9, 0.95], "weight_decay": 0.1},
    "Muon": {"lr": "auto", "adam_lr": 0.003, "weight_decay": "auto", "momentum": 0.9, "betas": [0.8, 0.99]},
}
PARAMETERS = {
    "WarmupLR": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "warmup_type": "linear"},
    "WarmupDecayLR": {"total_num_steps": "auto", "warmup_min_lr": "auto", "warmup_max_lr": "auto",
                      "warmup_num_steps": "auto"},
    "WarmupCosineLR": {"total_num_steps": "auto", "warmup_num_steps": "auto", "warmup_min_ratio": 0.1,
                       "cos_min_ratio": 0.05},
    "OneCycle": {"cycle_min_lr": 0.001, "cycle_max_lr": 0.03, "cycle_first_step_size": 2, "decay_lr_rate": 0.1,
                 "decay_step_size": 1, "cycle_min_mom": 0.6, "cycle_max_mom": 0.9},
}


# --- Which runs -------------------------------------------------------------------------------------------------------

def can_run(row):
    """Whether DeepSpeed can: OneCycle moves a momentum, which Adagrad does not have, and on CPUs Lion is for offloaded
    state alone."""
    stage, _, _, schedule, _, optimizer, offload = row
    return (not (schedule == "OneCycle" and optimizer == "Adagrad") and not (stage == 0 and offload == "cpu")
            and not (offload == "none" and optimizer == "Lion"))


def pairwise(columns, rng):
    """A part of the cross product in which every pair of values that can occur does."""
    rows = [row for row in itertools.product(*columns) if can_run(row)]
    pairs = [set(itertools.combinations(enumerate(row), 2)) for row in rows]
    left = set().union(*pairs)
    chosen = []
    while left:
        tried = rng.sample(range(len(rows)), min(200, len(rows)))
        best = max(tried, key=lambda index: len(pairs[index] & left))
        if not pairs[best] & left:
            best = max(range(len(rows)), key=lambda index: len(pairs[index] & left))
        left -= pairs[best]
        chosen.append(rows[best])
    return chosen


def run_of(row, number):
    stage, accumulation, clipping, schedule, precision, optimizer, offload = row
    file = {"zero_optimization": {"stage": stage}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": ROWS,
            "gradient_accumulation_steps": accumulation,
            "zero_allow_untested_optimizer": True, "optimizer": {"type": optimizer, "params": OPTIONS[optimizer]}}
    if clipping != "absent":
        file["gradient_clipping"] = clipping
    if schedule != "none":
        file["scheduler"] = {"type": schedule, "params": PARAMETERS[schedule]}
    if offload != "none":
        options = file["optimizer"]["params"]  # DeepSpeed's Adagrad on the CPU has no lr_decay.
        file["optimizer"]["params"] = {key: value for key, value in options.items() if key != "lr_decay"}
        file["zero_optimization"]["offload_optimizer"] = {"device": offload}
    if optimizer == "Muon":
        file["zero_optimization"]["reduce_scatter"] = False  # DeepSpeed cannot otherwise.
        if number % 2:
            options = file["optimizer"]["params"]
            file["optimizer"]["params"] = {**options, "ns_method": "standard", "adam_w_mode": False}
    if precision == "bf16":
        file["bf16"] = {"enabled": True}
    if precision == "fp16":
        # At stage 0 DeepSpeed knows no hysteresis. The scale doubles in the last step, which DeepSpeed takes too short.
        file["fp16"] = {"enabled": True, "initial_scale_power": 8, "loss_scale_window": 2,
                        "hysteresis": 1 + number % 2 if stage else 1, "min_loss_scale": 4}
        if optimizer == "Muon" and stage and offload == "none":
            file["fp16"] = {"enabled": True, "loss_scale": 256}  # DeepSpeed averages gradients of different scales.
    return {"name": "-".join(map(str, row)), "seed": number, "file": file, "steps": STEPS, "rows": ROWS,
            "sizes": SIZES, "rate": RATE, "warmup": 3, "weight_decay": 0.05,
            "overflows": [1, 3] if precision == "fp16" else []}


def runs_of(arguments):
    rng = random.Random(arguments.seed)
    columns = (STAGES, ACCUMULATIONS, CLIPPINGS, SCHEDULES, PRECISIONS, OPTIMIZERS, OFFLOADS)
    rows = list(filter(can_run, itertools.product(*columns))) if arguments.all else pairwise(columns, rng)
    runs = [run_of(row, arguments.seed * 10000 + number) for number, row in enumerate(rows)]
    return [run for run in runs if arguments.only in run["name"]]


# --- What both sides train --------------------------------------------------------------------------------------------

def values(torch, shape, phase):
    """Values between -1 and 1, which the native program computes too."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.double) * 1.7 + phase).view(shape)


def network(torch, run, dtype):
    """Weights that the dtype can hold: DeepSpeed rounds the optimizer's copies too."""
    layers = []
    for k, (width, height) in enumerate(zip(run["sizes"], run["sizes"][1:])):
        layer = torch.nn.Linear(width, height)
        with torch.no_grad():
            layer.weight.copy_((values(torch, layer.weight.shape, run["seed"] + k) * 0.6).to(dtype))
            layer.bias.copy_((values(torch, layer.bias.shape, run["seed"] + k + 0.5) * 0.1).to(dtype))
        layers += [layer, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def train(torch, accelerate, run):
    from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler
    file = json.loads(json.dumps(run["file"]))
    accumulation, stage = file["gradient_accumulation_steps"], file["zero_optimization"]["stage"]
    precision = next((word for word in ("bf16", "fp16") if word in file), "no")
    dtype = {"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    accelerator = accelerate.Accelerator(mixed_precision=precision, gradient_accumulation_steps=accumulation,
                                         deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=file))
    net = network(torch, run, dtype)
    dummy = DummyOptim(net.parameters(), lr=run["rate"], weight_decay=run["weight_decay"])
    given = [net, dummy]
    if "scheduler" in file:
        given.append(DummyScheduler(dummy, total_num_steps=run["steps"] * RANKS, warmup_num_steps=run["warmup"]))
    model, optimizer, *schedulers = accelerator.prepare(*given)
    losses, rates, scales = [], [], []
    for micro in range(run["steps"] * accumulation):
        x = values(torch, (RANKS, run["rows"], run["sizes"][0]), run["seed"] + micro)[accelerator.process_index]
        y = values(torch, (RANKS, run["rows"], run["sizes"][-1]), run["seed"] - micro)[accelerator.process_index] * 2
        step = micro // accumulation
        if micro % accumulation == 0:
            rates.append(optimizer.param_groups[0]["lr"])
        with accelerator.accumulate(model):
            loss = (model(x.to(dtype)).float() - y.float()).square().mean()
            losses.append(loss.item())
            # At stage 0 DeepSpeed forgets to scale the loss, and then unscales the gradients.
            forgotten = model.optimizer.loss_scale if precision == "fp16" and stage == 0 else 1
            accelerator.backward(loss * forgotten * (1e30 if step in run["overflows"] else 1))
            optimizer.step()
            for scheduler in schedulers:
                scheduler.step()
            optimizer.zero_grad()
        if precision == "fp16" and (micro + 1) % accumulation == 0:
            scales.append(float(model.optimizer.cur_scale if hasattr(model.optimizer, "cur_scale")
                                else model.optimizer.loss_scale))
    return {"losses": losses, "rates": rates, "scales": scales}


# --- Ranks of DeepSpeed -----------------------------------------------------------------------------------------------

def run_rank(folder):
    """Answers one rank's questions; a run that DeepSpeed refuses has its sentence in "error"."""
    import logging
    import torch
    import accelerate
    import deepspeed
    from accelerate.state import AcceleratorState, GradientState
    from deepspeed.accelerator import get_accelerator
    logging.disable(logging.WARNING)
    type(get_accelerator()).is_fp16_supported = lambda self: True  # PyTorch computes in it, only slowly.
    from deepspeed.runtime.fp16 import fused_optimizer, unfused_optimizer
    for optimizer in (fused_optimizer.FP16_Optimizer, unfused_optimizer.FP16_UnfusedOptimizer):
        # At stage 0 in 16 bits it would take a step without gradients first, which shrinks the weights.
        optimizer.initialize_optimizer_states = lambda self: None
    torch.set_num_threads(1)
    state = accelerate.PartialState()  # Beside DeepSpeed it finds ranks on GPUs alone.
    state.num_processes, state.process_index, state.device = RANKS, int(os.environ["RANK"]), torch.device("cpu")
    answers = []
    for run in json.loads((folder / "questions.json").read_text()):
        AcceleratorState._reset_state()
        GradientState._reset_state()
        try:
            answers.append(train(torch, accelerate, run))
        except Exception as error:  # noqa: BLE001
            if os.environ.get("DEEPSPEED_LIVE_DEBUG"):
                import traceback
                traceback.print_exc()
            answers.append({"error": f"{type(error).__name__}: {error}"})
    (folder / f"answers.{os.environ['RANK']}.json").write_text(json.dumps(answers))
    sys.stdout.flush()
    os._exit(0)


def ask_deepspeed(runs, folder):
    (folder / "questions.json").write_text(json.dumps(runs))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {**os.environ, "DS_ACCELERATOR": "cpu", "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS),
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
              "ACCELERATE_USE_DEEPSPEED": "true", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1",
              "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    shared.setdefault("TORCH_EXTENSIONS_DIR", f"{sys.prefix}/torch_extensions")
    ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--rank", str(folder)],
                              env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=sys.stderr)
             for rank in range(RANKS)]
    if any([rank.wait() for rank in ranks]):
        sys.exit("deepspeed_live: a rank of DeepSpeed failed")
    return [json.loads((folder / f"answers.{rank}.json").read_text()) for rank in range(RANKS)]


def joined(runs, answers):
    """The runs with DeepSpeed's answers; losses have a row for each rank."""
    found = []
    for run, *of_ranks in zip(runs, *answers):
        if "error" in of_ranks[0]:
            print(f"{run['name']}: DeepSpeed refuses: {of_ranks[0]['error']}", file=sys.stderr)
            continue
        found.append({**run, **of_ranks[0], "losses": [answer["losses"] for answer in of_ranks]})
    return found


def main():
    if sys.argv[1:2] == ["--rank"]:
        run_rank(pathlib.Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="runs whose name has this word")
    parser.add_argument("--save", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        runs = runs_of(arguments)
        found = joined(runs, ask_deepspeed(runs, folder))
        text = "[\n" + ",\n".join(json.dumps(run, separators=(",", ":")) for run in found) + "\n]\n"
        (folder / "deepspeed_runs.json").write_text(text)
        if arguments.save:
            arguments.save.write_text(text)
        print(f"{len(found)} of {len(runs)} runs of DeepSpeed", flush=True)
        command = [arguments.program, "--gtest_filter=DeepSpeedRuns.*"]
        sys.exit(subprocess.run(command, env={**os.environ, "ACCELERATE_GOLDEN_DIR": name}).returncode)


if __name__ == "__main__":
    main()
