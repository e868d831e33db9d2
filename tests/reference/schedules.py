#!/usr/bin/env python3
"""Writes what transformers' get_scheduler and torch.optim.lr_scheduler do with the rates: schedules.jsonl beside
this script, or in --out. Usage: schedules.py [--seed N] [--out FOLDER]. Needs torch and transformers.

A line is a JSON object:
  schedules  what is stepped, all of it in every step: {"name", "args"}; SequentialLR's args hold others
  optimizer  its class; rates: of its parameter groups, the first also the default
  steps      how often it is stepped; at: the steps whose rates follow, step 0 being before the first
  lr         a list for each of `at`, a rate for each group; momentum: the same where it cycles
  set        rates that were set by hand before a step: {"step": [...]}
  metric     of schedules that watch one: level + noise * (step * a % b) / b + start / (step + 1)
  state_at   a step, and the state_dict() then, without what only Python can use

The first lines are tables of 12 steps, then come curves of 1,000 steps with options drawn from the seed, sampled
at every twentieth step and around the steps where something happens.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import warnings

import torch
import transformers
from torch.optim import lr_scheduler
from transformers.optimization import get_scheduler

HERE = pathlib.Path(__file__).resolve().parent
warnings.filterwarnings("ignore")
NAMES = ["linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt",
         "reduce_lr_on_plateau", "cosine_with_min_lr", "cosine_warmup_with_min_lr", "warmup_stable_decay", "greedy"]
# Of a state: functions, flags that are only set during a call, and what follows from other entries.
PYTHON_ONLY = {"lr_lambdas", "_is_initial", "_get_lr_called_within_step", "_schedule_phases", "use_beta1", "mode_worse",
               "default_min_lr", "verbose", "optimizer"}


# --- running a case ---------------------------------------------------------------------------------

def make_optimizer(case):
    groups = [{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in case["rates"]]
    extra = {"momentum": 0.9} if case["optimizer"] == "SGD" else {}
    return getattr(torch.optim, case["optimizer"])(groups, lr=case["rates"][0], **extra)


def make_schedule(spec, optimizer):
    name, args = spec["name"], dict(spec["args"])
    if name in NAMES:
        steps = {key: args.pop(key) for key in ("num_warmup_steps", "num_training_steps") if key in args}
        return get_scheduler(name, optimizer, **steps, scheduler_specific_kwargs=args)
    if name == "LambdaLR":
        slopes = args["slopes"]
        return lr_scheduler.LambdaLR(optimizer, [lambda t, s=s: 1.0 / (1.0 + s * t) for s in slopes])
    if name == "SequentialLR":
        args["schedulers"] = [make_schedule(inner, optimizer) for inner in args["schedulers"]]
    return getattr(lr_scheduler, name)(optimizer, **args)


def metric_at(metric, step):
    return metric["level"] + metric["noise"] * (step * metric["a"] % metric["b"]) / metric["b"] + metric["start"] / (step + 1)


def plain(state):
    """A state_dict without what only Python can use; infinities as text, Counters as sorted lists."""
    result = {}
    for key, value in state.items():
        if key in PYTHON_ONLY or value is None:
            continue
        if isinstance(value, collections.Counter):
            value = sorted(value.elements())
        if isinstance(value, dict):
            value = [plain(value)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            value = [plain(inner) for inner in value]
        elif isinstance(value, float) and math.isinf(value):
            value = str(value)
        result[key] = value
    return result


def momentum_of(group):
    return group["betas"][0] if "betas" in group else group["momentum"]


def run(case):
    optimizer = make_optimizer(case)
    schedules = [make_schedule(spec, optimizer) for spec in case["schedules"]]
    cycles = any(spec["name"] == "OneCycleLR" and spec["args"].get("cycle_momentum", True) for spec in case["schedules"])
    at, by_hand = set(case["at"]), case.get("set", {})
    case["lr"], case["momentum"] = [], []
    for step in range(case["steps"] + 1):
        for group, rate in zip(optimizer.param_groups, by_hand.get(str(step), [])):
            group["lr"] = rate
        if step in at:
            case["lr"].append([group["lr"] for group in optimizer.param_groups])
            case["momentum"].append([momentum_of(group) for group in optimizer.param_groups] if cycles else [])
        if step == case.get("state_at"):
            # A copy: the state_dict shares its lists with the schedule.
            case["state"] = json.loads(json.dumps(plain(schedules[0].state_dict())))
        if step == case["steps"]:
            break
        for schedule in schedules:
            metric = [metric_at(case["metric"], step)] if "metric" in case else []
            schedule.step(*metric)
    if not cycles:
        del case["momentum"]
    return case


# --- the cases --------------------------------------------------------------------------------------

def case(name, args, *, optimizer="SGD", rates=(1.0,), steps=11, at=None, **more):
    return {"schedules": [{"name": name, "args": args}], "optimizer": optimizer, "rates": list(rates), "steps": steps,
            "at": list(range(steps + 1)) if at is None else at, **more}


def tables():
    """Ten steps of training, two of warm-up, rate 1; and the short forms of torch's schedules."""
    steps = {"num_warmup_steps": 2, "num_training_steps": 10}
    for name, args in [
            ("linear", {}), ("cosine", {}), ("cosine_with_restarts", {"num_cycles": 2}), ("polynomial", {}),
            ("polynomial", {"power": 2.0}), ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
            ("cosine_with_min_lr", {"min_lr": 0.25}), ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}),
            ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1, "warmup_lr_rate": 0.2}),
            ("warmup_stable_decay", {"num_decay_steps": 3}), ("warmup_stable_decay", {"num_decay_steps": 3, "min_lr_ratio": 0.1})]:
        yield case(name, steps | args)
    yield case("warmup_stable_decay", {"num_warmup_steps": 3, "num_stable_steps": 2, "num_decay_steps": 4,
                                       "warmup_type": "1-sqrt", "decay_type": "1-sqrt"})
    yield case("warmup_stable_decay", {"num_warmup_steps": 4, "num_training_steps": 12, "num_decay_steps": 4,
                                       "warmup_type": "cosine", "decay_type": "linear"})
    yield case("constant", {})
    yield case("constant_with_warmup", {"num_warmup_steps": 2})
    yield case("inverse_sqrt", {"num_warmup_steps": 2})
    yield case("inverse_sqrt", {"num_warmup_steps": 0})
    yield case("linear", {"num_warmup_steps": 0, "num_training_steps": 0})
    yield case("linear", {"num_warmup_steps": 20, "num_training_steps": 10})
    metric = {"level": 1.0, "noise": 0.0, "a": 1, "b": 2, "start": 0.0}
    yield case("reduce_lr_on_plateau", {"patience": 2}, metric=metric)
    yield case("greedy", {"patience": 1, "factor": 0.5, "min_lr": 0.2, "reset_start": 2}, metric=metric)
    yield case("LambdaLR", {"slopes": [0.5]})
    yield case("StepLR", {"step_size": 3})
    yield case("MultiStepLR", {"milestones": [7, 2, 7], "gamma": 0.5})
    yield case("ExponentialLR", {"gamma": 0.9})
    yield case("LinearLR", {})
    yield case("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.1})
    yield case("OneCycleLR", {"max_lr": 1.0, "total_steps": 11})
    yield case("OneCycleLR", {"max_lr": 1.0, "epochs": 3, "steps_per_epoch": 4, "three_phase": True, "anneal_strategy": "linear"},
               optimizer="AdamW")


def edges(*steps, total=1000):
    near = {step + offset for step in steps for offset in (-1, 0, 1)}
    return sorted(step for step in set(range(0, total + 1, 20)) | near | {1, total - 1} if 0 <= step <= total)


def some_optimizer(draw, groups, momentum=False):
    kinds = ["SGD", "Adam", "AdamW", "RMSprop"] + ([] if momentum else ["Adagrad"] + (["LBFGS"] if groups == 1 else []))
    return {"optimizer": draw.choice(kinds), "rates": [round(10 ** draw.uniform(-4, 0), 6) for _ in range(groups)]}


def warmup_curves(draw, groups):
    warmup, training = draw.randint(0, 200), draw.randint(600, 1100)
    cycles, decay = draw.choice([0.5, 1.5, 2.25]), draw.randint(50, 300)
    floor = round(draw.uniform(0, 0.5), 3)
    steps = {"num_warmup_steps": warmup, "num_training_steps": training}
    shapes = ["linear", "cosine", "1-sqrt"]
    for name, args, when in [
            ("linear", steps, []), ("cosine", steps | {"num_cycles": cycles}, []),
            ("cosine_with_restarts", steps | {"num_cycles": draw.randint(2, 5)}, []),
            ("polynomial", steps | {"power": draw.choice([0.5, 1.0, 3.0]), "lr_end": 1e-6}, []),
            ("constant", {}, []), ("constant_with_warmup", {"num_warmup_steps": warmup}, []),
            ("inverse_sqrt", {"num_warmup_steps": warmup, "timescale": draw.randint(1, 5000)}, []),
            ("cosine_with_min_lr", steps | {"num_cycles": cycles, "min_lr_rate": floor}, []),
            ("cosine_warmup_with_min_lr", steps | {"min_lr_rate": floor, "warmup_lr_rate": round(draw.random(), 3)}, []),
            ("warmup_stable_decay", steps | {"num_decay_steps": decay, "min_lr_ratio": floor, "num_cycles": cycles,
                                             "warmup_type": draw.choice(shapes), "decay_type": draw.choice(shapes)},
             [training - decay])]:
        yield case(name, args, steps=1000, at=edges(warmup, training, *when), state_at=draw.randrange(20, 900, 20),
                   **some_optimizer(draw, groups))


def metric_curves(draw, groups):
    shared = {"mode": draw.choice(["min", "max"]), "patience": draw.randint(0, 15), "cooldown": draw.randint(0, 10),
              "threshold_mode": draw.choice(["rel", "abs"]), "threshold": draw.choice([1e-4, 1e-2])}
    bounds = [round(10 ** draw.uniform(-7, -5), 9) for _ in range(groups)]
    own = {"reduce_lr_on_plateau": {"factor": draw.choice([0.1, 0.5, 0.9]), "min_lr": bounds, "eps": 1e-9},
           "greedy": {"factor": draw.choice([0.5, 0.9]), "min_lr": bounds, "max_lr": draw.choice([0.5, 2.0]),
                      "warmup": draw.randint(0, 10), "smooth": draw.random() < 0.7, "window_size": draw.randint(1, 20),
                      "reset_start": draw.randint(1, 6)}}
    for name, args in own.items():
        metric = {"level": draw.uniform(0, 2), "noise": draw.uniform(0, 0.5), "a": draw.randint(1, 999), "b": 1009,
                  "start": draw.choice([-50.0, 50.0])}
        yield case(name, shared | args, steps=1000, at=edges(), metric=metric, state_at=draw.randrange(20, 900, 20),
                   **some_optimizer(draw, groups))


def torch_curves(draw, groups):
    milestones = sorted(draw.sample(range(1, 1000), 3))
    total, length = draw.randint(20, 900), draw.randint(10, 700)
    rates = [round(10 ** draw.uniform(-3, 0), 6) for _ in range(groups)]
    for name, args, when in [
            ("LambdaLR", {"slopes": [round(draw.uniform(0, 0.1), 4) for _ in range(groups)]}, []),
            ("StepLR", {"step_size": draw.randint(20, 200), "gamma": round(draw.uniform(0.3, 0.99), 3)}, []),
            ("MultiStepLR", {"milestones": milestones + milestones[:1], "gamma": 0.3}, milestones),
            ("ExponentialLR", {"gamma": round(draw.uniform(0.98, 0.9999), 6)}, []),
            ("LinearLR", {"start_factor": round(draw.uniform(0.01, 1), 3), "end_factor": round(draw.random(), 3),
                          "total_iters": total}, [total]),
            ("CosineAnnealingLR", {"T_max": length, "eta_min": round(draw.uniform(0, 1e-4), 7)}, [length])]:
        yield case(name, args, steps=1000, at=edges(*when), state_at=draw.randrange(20, 900, 20),
                   **some_optimizer(draw, groups))
    yield case("OneCycleLR", {"max_lr": rates, "total_steps": 1000, "pct_start": round(draw.random(), 2),
                              "anneal_strategy": draw.choice(["cos", "linear"]), "three_phase": draw.random() < 0.5,
                              "cycle_momentum": draw.random() < 0.8, "div_factor": 10.0, "final_div_factor": 100.0},
               steps=1000, at=edges(), state_at=draw.randrange(20, 900, 20), **some_optimizer(draw, groups, momentum=True))


def combined_curves(draw, groups):
    """Sequences, schedules stepped together, and rates set by hand."""
    inner = [{"name": "LinearLR", "args": {"start_factor": 0.1, "total_iters": 100}},
             {"name": "CosineAnnealingLR", "args": {"T_max": draw.randint(200, 500)}},
             {"name": "StepLR", "args": {"step_size": 50, "gamma": 0.7}},
             {"name": "linear", "args": {"num_warmup_steps": 0, "num_training_steps": draw.randint(100, 300)}}]
    milestones = [100, draw.randint(300, 500), 800]
    yield case("SequentialLR", {"schedulers": inner, "milestones": milestones}, steps=1000, at=edges(*milestones),
               state_at=draw.randrange(20, 900, 20), **some_optimizer(draw, groups))
    others = [{"name": "ExponentialLR", "args": {"gamma": 0.99}}, {"name": "MultiStepLR", "args": {"milestones": [100], "gamma": 0.5}}]
    yield case("SequentialLR", {"schedulers": others, "milestones": [0]}, steps=1000, at=edges(100), state_at=500,
               **some_optimizer(draw, groups))
    together = case("LinearLR", {"start_factor": 0.25, "total_iters": 200}, steps=1000, at=edges(200), **some_optimizer(draw, groups))
    together["schedules"] += [{"name": "ExponentialLR", "args": {"gamma": 0.997}}, {"name": "StepLR", "args": {"step_size": 300}}]
    yield together
    after = case("LinearLR", {"start_factor": 0.25, "total_iters": 200}, steps=20, at=list(range(21)), **some_optimizer(draw, groups))
    after["schedules"].append({"name": "LambdaLR", "args": {"slopes": [0.1] * groups}})  # From the first rate.
    yield after
    for spec in inner + others:
        by_hand = {str(step): [round(draw.random(), 4) for _ in range(groups)] for step in (30, 200, 555)}
        yield case(spec["name"], spec["args"], steps=1000, at=edges(30, 200, 555), set=by_hand, **some_optimizer(draw, groups))


def cases(seed):
    yield from tables()
    draw = random.Random(seed)
    for groups in (1, 2, 3):
        yield from warmup_curves(draw, groups)
        yield from metric_curves(draw, groups)
        yield from torch_curves(draw, groups)
    yield from combined_curves(draw, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    rows = [json.dumps(run(one), separators=(",", ":"), allow_nan=False) for one in cases(options.seed)]
    header = {"torch": torch.__version__, "transformers": transformers.__version__, "seed": options.seed, "rows": len(rows)}
    path = options.out / "schedules.jsonl"
    path.write_text("\n".join([json.dumps(header), *rows]) + "\n", encoding="utf-8")
    print(f"{path}: {len(rows)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
