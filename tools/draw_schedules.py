#!/usr/bin/env python3
"""Draws docs/schedules.svg: what the schedules do with a rate of 1 in 100 steps, 10 of them warm-up.
Usage: draw_schedules.py. The curves are those of the originals, run by tests/reference/schedules.py, to which the
library is equal. Needs torch and transformers.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "reference"))
from schedules import case, run  # noqa: E402

STEPS, WIDTH, HEIGHT, COLUMNS = 100, 150, 70, 4
WARMUP = {"num_warmup_steps": 10, "num_training_steps": STEPS}
METRIC = {"level": 1.0, "noise": 0.2, "a": 7, "b": 31, "start": 4.0}
PANELS = [
    ("linear", WARMUP, {}), ("cosine", WARMUP, {}), ("cosine_with_restarts", WARMUP | {"num_cycles": 3}, {}),
    ("polynomial", WARMUP | {"power": 2.0}, {}), ("constant", {}, {}), ("constant_with_warmup", {"num_warmup_steps": 10}, {}),
    ("inverse_sqrt", {"num_warmup_steps": 10}, {}), ("cosine_with_min_lr", WARMUP | {"min_lr_rate": 0.2}, {}),
    ("cosine_warmup_with_min_lr", WARMUP | {"min_lr_rate": 0.2, "warmup_lr_rate": 0.4}, {}),
    ("warmup_stable_decay", WARMUP | {"num_decay_steps": 30}, {}),
    ("reduce_lr_on_plateau", {"factor": 0.5, "patience": 8}, {"metric": METRIC}),
    ("greedy", {"factor": 0.8, "patience": 2, "min_lr": 0.1}, {"metric": METRIC, "rates": [0.5]}),
    ("StepLR", {"step_size": 25, "gamma": 0.5}, {}), ("MultiStepLR", {"milestones": [20, 60, 80], "gamma": 0.5}, {}),
    ("ExponentialLR", {"gamma": 0.96}, {}), ("LinearLR", {"start_factor": 0.2, "total_iters": 60}, {}),
    ("CosineAnnealingLR", {"T_max": 40}, {}), ("OneCycleLR", {"max_lr": 1.0, "total_steps": STEPS}, {}),
    ("LambdaLR", {"slopes": [0.05]}, {}),
    ("SequentialLR", {"schedulers": [{"name": "LinearLR", "args": {"start_factor": 0.1, "total_iters": 20}},
                                     {"name": "ExponentialLR", "args": {"gamma": 0.95}}], "milestones": [40]}, {}),
]


def panel(name, args, more):
    rates = [rates[0] for rates in run(case(name, args, steps=STEPS, **more))["lr"]]
    points = " ".join(f"{x * WIDTH / STEPS:.1f},{HEIGHT * (1 - rate):.1f}" for x, rate in enumerate(rates))
    return (f'<path class="axis" d="M0 0V{HEIGHT}H{WIDTH}"/><polyline points="{points}"/>'
            f'<text x="{WIDTH / 2}" y="{HEIGHT + 16}">{name}</text>')


def main():
    across, down = WIDTH + 30, HEIGHT + 40
    rows = -(-len(PANELS) // COLUMNS)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * across} {rows * down}" role="img">',
             "<title>Learning rate over 100 steps</title>",
             "<style>polyline{fill:none;stroke:#2563eb;stroke-width:2}.axis{fill:none;stroke:#888}"
             "text{font:11px sans-serif;text-anchor:middle;fill:#666}</style>"]
    for i, one in enumerate(PANELS):
        x, y = i % COLUMNS * across + 15, i // COLUMNS * down + 12
        parts.append(f'<g transform="translate({x} {y})">{panel(*one)}</g>')
    path = ROOT / "docs" / "schedules.svg"
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
