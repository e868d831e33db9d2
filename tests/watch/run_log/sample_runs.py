"""Runs made up for the tests of `accelerate report` and `accelerate watch`, as the Trainer writes them."""
import json
import math
import pathlib
import random

START = 1795592000.25
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&]]>\x1b[31mred\x07\r\n\u202eevil\u2028"


class Log:
    """Writes events; `time` is the run's clock."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "run_log.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.time = START

    def write(self, event, step, **fields):
        line = json.dumps({"event": event, "time": round(self.time, 3), "step": step, **fields})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def begin(self, step=0, **fields):
        arguments = {"learning_rate": 3e-05, "num_train_epochs": 3.0, "seed": 42, "run_name": None, "fsdp": ["full_shard"]}
        usual = {"learning_rate": 5e-05, "num_train_epochs": 3, "seed": 42, "run_name": None, "fsdp": []}
        self.write("begin", step, **{
            "max_steps": 1000, "num_train_epochs": 3, "num_processes": 2, "model": "BertForSequenceClassification",
            "parameters": 109483778, "trained_parameters": 1538, "train_examples": 67349, "total_batch_size": 32,
            "arguments": arguments, "argument_defaults": usual, "resumed_from": None, "strategy": "FULL_SHARD, 14 units",
            "precision": "bf16", "device": "cpu", **fields})

    def log(self, step, loss, **fields):
        self.write("log", step, epoch=step / 333, loss=loss, **fields)


def step_seconds(rng):
    return {"data": 0.004, "forward": 0.09, "backward": 0.16 * rng.uniform(0.95, 1.1), "communication": 0.03 * rng.uniform(0.7, 1.6),
            "optimizer": 0.021, "other": 0.004}


def whole_run(folder, steps=1000, every=10, seed=0, end=True):
    """A run with evaluations, checkpoints, a few losses that are no number, and a resumption in the middle."""
    rng, log = random.Random(seed), Log(folder)
    log.begin(max_steps=steps)
    step, resumed = 0, False
    while step < steps:
        step += every
        log.time += every * rng.uniform(0.28, 0.35)
        loss = 0.12 + 0.75 * math.exp(-4 * step / steps) + rng.gauss(0, 0.02)
        log.log(step, "nan" if 0.3 < step / steps < 0.32 else loss, grad_norm=rng.uniform(0.5, 3), memory_bytes=2_400_000_000,
                learning_rate=3e-05 * (1 - step / steps), samples_per_second=rng.uniform(95, 105),
                tokens_per_second=rng.uniform(12e3, 14e3), step_seconds=step_seconds(rng))
        if step % (steps // 10) == 0:
            accuracy = 0.93 - 0.3 * math.exp(-5 * step / steps) - 0.1 * max(0, step / steps - 0.7)
            log.write("evaluate", step, epoch=step / 333, metrics={"eval_loss": 1 - accuracy, "eval_accuracy": accuracy, "eval_runtime": 9})
            log.write("save", step, folder=f"checkpoint-{step}", best=step == steps * 7 // 10)
        if step == steps // 2 + 2 * every and not resumed:
            resumed = True
            log.write("note", step, text="rank 1 was lost", level="warning")
            log.time += 100
            step = steps // 2
            log.begin(step, max_steps=steps, resumed_from=f"checkpoint-{step}")
    if end:
        log.write("end", step, reason="finished", metrics={"train_loss": 0.25, "train_runtime": 300})
    return log


def hostile_run(folder, end=True):
    """A run all of whose texts are up to no good."""
    log = Log(folder)
    log.begin(model=HOSTILE, strategy=HOSTILE, precision=HOSTILE, device=HOSTILE, resumed_from=HOSTILE,
              arguments={HOSTILE: {HOSTILE: [HOSTILE]}}, argument_defaults={HOSTILE: HOSTILE})
    log.log(1, 0.5, **{HOSTILE: 2.0})
    log.log(2, 1e300, **{HOSTILE: 3.0})
    log.write("evaluate", 2, metrics={HOSTILE: 1.0, HOSTILE + "loss": 2.0})
    log.write("save", 2, folder=HOSTILE, best=True)
    log.write("note", 2, text=HOSTILE, level=HOSTILE)
    log.write("party", 2, text=HOSTILE)
    if end:
        log.write("end", 2, reason=HOSTILE, metrics={HOSTILE: 1})
    return log
