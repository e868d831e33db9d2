#!/usr/bin/env python3
"""State folders of Python Accelerate for the C++ tests to go on from. usage: python_states.py runs|refused FOLDER

runs: FOLDER/<case>/ for every optimizer (ScheduleFreeAdamW of the package schedulefree and Lion of bitsandbytes where those are installed) with one
schedule, and every schedule with two optimizers, saved after STEPS steps of a small network with batch norm and
dropout, and FOLDER/runs.json with what each case is, the losses of the STEPS steps that follow, the weights and rates
at the end. FOLDER/ranks: the random states of two ranks.
refused: FOLDER/<case>/ that are to be refused, each damaged in one way.
"""
import contextlib
import json
import pathlib
import random
import shutil
import sys

import torch
from accelerate import Accelerator
from accelerate.checkpointing import save_accelerator_state
from accelerate.state import AcceleratorState, GradientState
from safetensors.torch import save_file
from transformers import get_scheduler
from transformers.optimization import Adafactor

STEPS, BATCH, INPUTS, HIDDEN = 5, 6, 4, 8


def waves(count, start, pace):
    return torch.sin(torch.arange(count, dtype=torch.float64) * pace + start).float()


class Net(torch.nn.Module):
    def __init__(self, dropout):
        super().__init__()
        # A bias before a batch norm has no gradient but noise, which Adam makes large.
        self.first, self.norm = torch.nn.Linear(INPUTS, HIDDEN, bias=False), torch.nn.BatchNorm1d(HIDDEN)
        self.drop, self.last = torch.nn.Dropout(dropout), torch.nn.Linear(HIDDEN, 1)
        with torch.no_grad():
            for index, leaf in enumerate(self.parameters()):
                leaf.copy_(0.5 * waves(leaf.numel(), 0.3 * index, 1.7).view(leaf.shape))

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.norm(self.first(x)))))


def batch(step):
    x = waves(BATCH * INPUTS, 0.1 + step, 0.37).view(BATCH, INPUTS)
    return x, x.sum(1, keepdim=True)


OPTIMIZERS = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1),
    "AdamW_amsgrad": lambda p: torch.optim.AdamW(p, lr=0.02, amsgrad=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.01),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.02),
    "SGD_nesterov": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.02, lr_decay=0.01, initial_accumulator_value=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.5, centered=True),
    "RMSprop_plain": lambda p: torch.optim.RMSprop(p, lr=0.02),
    "Muon": lambda p: torch.optim.Muon([q for q in p if q.ndim == 2], lr=0.02, nesterov=False, adjust_lr_fn="match_rms_adamw"),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.02, max_iter=3, history_size=4),
    "Adafactor": lambda p: Adafactor(p, lr=0.02, beta1=0.8, relative_step=False, weight_decay=0.1),
    "Adafactor_plain": lambda p: Adafactor(p, lr=0.02, scale_parameter=False, relative_step=False),
}
with contextlib.suppress(ImportError):
    from schedulefree import AdamWScheduleFree
    OPTIMIZERS["ScheduleFreeAdamW"] = lambda p: AdamWScheduleFree(p, lr=0.02, warmup_steps=3, weight_decay=0.1)
with contextlib.suppress(ImportError):
    from bitsandbytes.optim import Lion32bit
    OPTIMIZERS["Lion"] = lambda p: Lion32bit(p, lr=0.002, weight_decay=0.1)
SCHEDULES = {
    "none": lambda o: None,
    "linear": lambda o: get_scheduler("linear", o, num_warmup_steps=3, num_training_steps=12),
    "cosine": lambda o: get_scheduler("cosine", o, num_warmup_steps=2, num_training_steps=12),
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 6, 6], 0.5),
    "CosineAnnealingLR": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 9, 0.001),
    "ExponentialLR": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, 12, cycle_momentum=cycles(o)),
    "ReduceLROnPlateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.5),
    "SequentialLR": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o, [torch.optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 4), torch.optim.lr_scheduler.ExponentialLR(o, 0.8)], [4]),
}


def cycles(optimizer):
    return "betas" in optimizer.defaults or optimizer.defaults.get("momentum", 0) > 0


class Notes:
    """A registered object of plain data."""

    def __init__(self, value=None):
        self.value = value

    def state_dict(self):
        return {"best": 1.5, "names": ["a", "b"], "seen": {3: True, 4: None}, "mean": torch.arange(3.0), "pair": (1, 2),
                "other": self.value}

    def load_state_dict(self, state):
        self.value = state["other"]


def fresh(**options):
    AcceleratorState._reset_state()
    GradientState._reset_state()
    torch.manual_seed(1234)
    random.seed(7)
    return Accelerator(cpu=True, **options)


class Run:
    def __init__(self, case):
        self.case = case
        self.accelerator = fresh(gradient_accumulation_steps=case.get("accumulation", 1))
        if case.get("scaler"):  # Accelerate refuses fp16 on the CPU: its scaler is given to it.
            self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
        self.net = Net(0.0 if case["optimizer"] == "LBFGS" else 0.5)
        optimizer = OPTIMIZERS[case["optimizer"]](self.groups())
        schedule = SCHEDULES[case["schedule"]](optimizer)
        if case["optimizer"] == "ScheduleFreeAdamW":
            optimizer.train()
        self.model, self.optimizer = self.accelerator.prepare(self.net, optimizer)
        self.schedule = self.accelerator.prepare(schedule) if schedule is not None else None
        self.losses = []

    def groups(self):
        if not self.case.get("groups"):
            return self.net.parameters()
        return [{"params": list(self.net.last.parameters()), "lr": 0.01},
                {"params": [*self.net.first.parameters(), *self.net.norm.parameters()]}]

    def loss(self, step):
        x, target = batch(step)
        with torch.autocast("cpu", torch.float16, enabled=bool(self.case.get("scaler"))):
            scores = self.model(x)
        return torch.nn.functional.mse_loss(scores.float(), target)

    def train(self, first, last):
        for step in range(first, last):
            with self.accelerator.accumulate(self.model):
                loss = self.step_with_closure(step) if self.case["optimizer"] == "LBFGS" else self.plain_step(step)
                self.losses.append(loss.item())
                if self.case["schedule"] == "ReduceLROnPlateau":
                    self.schedule.step(loss.item())
                elif self.schedule is not None:
                    self.schedule.step()

    def plain_step(self, step):
        loss = self.loss(step)
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def step_with_closure(self, step):
        losses = []

        def closure():
            self.optimizer.zero_grad()
            losses.append(self.loss(step))
            self.accelerator.backward(losses[-1])
            return losses[-1]
        self.optimizer.step(closure)
        return losses[0]

    def go_on(self):
        """The steps after the save; what they gave."""
        self.losses = []
        self.train(STEPS, 2 * STEPS)
        row = dict(self.case, losses=self.losses, rates=[group["lr"] for group in self.optimizer.param_groups],
                   weights={name: tensor.double().flatten().tolist() for name, tensor in self.net.state_dict().items()},
                   random=torch.rand(3).tolist())
        if self.case.get("scaler"):
            row["scale"] = self.accelerator.scaler.get_scale()
        return row


def cases():
    for optimizer in OPTIMIZERS:
        for schedule in SCHEDULES:
            if schedule == "linear" or optimizer in ("AdamW", "SGD_nesterov"):
                yield {"name": f"{optimizer}-{schedule}", "optimizer": optimizer, "schedule": schedule}
    yield {"name": "bin", "optimizer": "AdamW", "schedule": "linear", "safe": False}
    yield {"name": "groups", "optimizer": "SGD_nesterov", "schedule": "linear", "groups": True}
    yield {"name": "accumulation", "optimizer": "AdamW", "schedule": "linear", "accumulation": 5}
    yield {"name": "scaler", "optimizer": "SGD_nesterov", "schedule": "none", "scaler": True}
    yield {"name": "wrapped", "optimizer": "AdamW", "schedule": "linear", "wrapped": True}
    yield {"name": "checkpoint_7", "optimizer": "Adam", "schedule": "StepLR", "notes": True}


def wrap(net, file):
    """The weights as a training on several ranks saves them: by the names that DistributedDataParallel gives."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    save_file(torch.nn.parallel.DistributedDataParallel(torch.compile(net)).state_dict(), file, {"format": "pt"})
    torch.distributed.destroy_process_group()


def ranks(folder):
    """A folder of two ranks with nothing but their random states; random.json has what each draws next."""
    folder.mkdir()
    drawn = []
    for rank in range(2):
        torch.manual_seed(77 + rank)
        save_accelerator_state(folder, [], [], [], [], rank, 0)
        drawn.append(torch.rand(3).tolist())
    (folder / "random.json").write_text(json.dumps(drawn))


def runs(folder):
    rows = []
    for case in cases():
        run = Run(case)
        if case.get("notes"):
            run.accelerator.register_for_checkpointing(Notes())
        run.train(0, STEPS)
        run.accelerator.save_state(str(folder / case["name"]), safe_serialization=case.get("safe", True))
        if case.get("wrapped"):
            wrap(run.net, folder / case["name"] / "model.safetensors")
        rows.append(run.go_on())
    ranks(folder / "ranks")
    (folder / "runs.json").write_text(json.dumps(rows))
    print(f"{len(rows)} runs")


def changed(source, name, file, change):
    """A copy of the folder in which `change` was applied to what is in `file`."""
    target = source.parent / name
    shutil.copytree(source, target)
    value = torch.load(target / file, weights_only=False)
    torch.save(change(value) or value, target / file)


def refused(folder):
    run = Run({"optimizer": "AdamW", "schedule": "linear"})
    run.accelerator.register_for_checkpointing(Notes())
    run.train(0, 2)
    good = folder / "good"
    run.accelerator.save_state(str(good))
    sgd = torch.optim.SGD(Net(0).parameters(), lr=0.1)
    optimizer = {
        "another_class": lambda v: sgd.state_dict(),
        "no_class": lambda v: {"state": {}, "param_groups": [{"lr": 0.1, "lambd": 1.0, "params": list(range(5))}]},
        "adam": lambda v: v["param_groups"][0].update(decoupled_weight_decay=False),
        "maximize": lambda v: v["param_groups"][0].update(maximize=True),
        "an_option_more": lambda v: v["param_groups"][0].update(lookahead=3),
        "an_option_less": lambda v: v["param_groups"][0].pop("eps") and None,
        "an_entry_more": lambda v: v["state"][0].update(exp_avg_diff=torch.zeros(8, 4)),
        "an_entry_less": lambda v: v["state"][0].pop("exp_avg") is None or None,
        "an_entry_none": lambda v: v["state"][0].update(exp_avg=None),
        "another_shape": lambda v: v["state"][0].update(exp_avg=torch.zeros(4, 8)),
        "half_a_step": lambda v: v["state"][0].update(step=1.5),
        "a_text": lambda v: v["state"][0].update(exp_avg="text"),
        "two_groups": lambda v: v["param_groups"].append(dict(v["param_groups"][0])),
        "a_parameter_less": lambda v: v["param_groups"][0]["params"].pop() and None,
        "a_parameter_by_name": lambda v: v["param_groups"][0].update(params=list("abcde")),
        "no_groups": lambda v: {"state": {}},
        "no_optimizer": lambda v: [1, 2],
        "a_class_of_python": lambda v: v["state"][0].update(extra=pathlib.PurePosixPath("x")),
    }
    for name, change in optimizer.items():
        changed(good, name, "optimizer.bin", change)
    scheduler = {
        "scheduler_list": lambda v: [v],
        "scheduler_lacks": lambda v: v.pop("last_epoch") and None,
        "scheduler_groups": lambda v: v.update(base_lrs=[0.1, 0.2]),
        "scheduler_bytes": lambda v: v.update(other=b"x"),
    }
    for name, change in scheduler.items():
        changed(good, name, "scheduler.bin", change)
    changed(good, "random_short", "random_states_0.pkl", lambda v: v.update(torch_manual_seed=torch.zeros(10).byte()))
    changed(good, "random_none", "random_states_0.pkl", lambda v: v.pop("torch_manual_seed") is None or None)
    changed(good, "custom_class", "custom_checkpoint_0.pkl", lambda v: v.update(other=pathlib.PurePosixPath("x")))
    changed(good, "custom_set", "custom_checkpoint_0.pkl", lambda v: v.update(other={1, 2}))
    changed(good, "custom_key", "custom_checkpoint_0.pkl", lambda v: v.update(other={1.5: 2}))
    for name in ("optimizer.bin", "scheduler.bin", "custom_checkpoint_0.pkl", "model.safetensors"):
        shutil.copytree(good, folder / f"without_{name}")
        (folder / f"without_{name}" / name).unlink()
    for name, copy in (("optimizer.bin", "optimizer_1.bin"), ("scheduler.bin", "scheduler_1.bin"),
                       ("custom_checkpoint_0.pkl", "custom_checkpoint_1.pkl"), ("model.safetensors", "model_1.safetensors")):
        shutil.copytree(good, folder / f"with_{copy}")
        shutil.copy(good / name, folder / f"with_{copy}" / copy)
    shutil.copytree(good, folder / "fsdp")
    (folder / "fsdp" / "model.safetensors").rename(folder / "fsdp" / "pytorch_model_fsdp.bin")
    shutil.copytree(good, folder / "cut")
    whole = (good / "optimizer.bin").read_bytes()
    (folder / "cut" / "optimizer.bin").write_bytes(whole[:len(whole) // 2])
    print(f"{len(list(folder.iterdir()))} folders")


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"runs": runs, "refused": refused}[sys.argv[1]](pathlib.Path(sys.argv[2]))
