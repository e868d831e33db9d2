#!/usr/bin/env python3
"""Trains the net of tests/parallel/sharded/sharded_net.h as sharded ranks do in 16 bits: weights, activations and gradients
of fp16 or bf16, gradients rounded to it on their way, fp32 masters that the optimizer updates.

Ranks are played one after the other in this process by plain PyTorch: no sharding, no collective.

usage: sharded_half.py [SEED]   writes sharded_half.json beside itself: for each row (dtype, recipe, ranks) the last
losses of rank 0 and every seventh element of the masters at the end. Another seed shifts the inputs; nothing is written then,
rows go to stdout.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

WIDTH, BATCH, STEPS = 7, 12, 20
RECIPES = {
    "Plain": {},
    "AdamW": {"adamw": True},
    "Accumulates": {"accumulation": 3, "adamw": True},
    "Clips": {"clips": True, "adamw": True},
    "Tied": {"tied": True},
    "Frozen": {"frozen": True, "adamw": True},
    "Branches": {"branch": True, "adamw": True, "alternates": True},
}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH + 1)
        self.down = torch.nn.Linear(2 * WIDTH + 1, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self, tied=False, frozen=False, branch=False):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        for i in range(3):
            setattr(self, f"block{i}", Block())
        if branch:
            self.branch = Block()
        self.head_weight = self.first.weight if tied else torch.nn.Parameter(torch.empty(WIDTH, WIDTH))
        with torch.no_grad():
            # In C++ a tied weight is listed under each of its names, and the last one fills it.
            for which, (_, p) in enumerate(self.named_parameters(remove_duplicate=False), 1):
                p.copy_((torch.arange(p.numel(), dtype=torch.float64) + which).sin().mul(0.3).view_as(p))
        if frozen:
            self.block1.requires_grad_(False)

    def forward(self, x, takes_branch):
        x = torch.tanh(self.first(x))
        for i in range(3):
            x = getattr(self, f"block{i}")(x)
        if takes_branch:
            x = x + self.branch(x)
        return F.linear(x, self.head_weight)


def inputs(step, rank, ranks, seed):
    whole = torch.arange(BATCH * WIDTH, dtype=torch.float64).mul(0.7).add(step + seed).sin().view(BATCH, WIDTH)
    return whole.chunk(ranks)[rank].float()


def optimizer_for(recipe, masters):
    if not recipe.get("adamw"):
        return torch.optim.SGD(masters, lr=0.05, momentum=0.9, fused=True)
    matrices = [p for p in masters if p.dim() > 1]
    others = [p for p in masters if p.dim() <= 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                             lr=0.01, fused=True)


class Scale:
    """The loss scale of fp16, as torch.amp.GradScaler moves it; 1 for bf16."""

    def __init__(self, dtype):
        self.value = 65536.0 if dtype is torch.float16 else 1.0

    def skips(self, gradients):
        if self.value == 1.0 or all(bool(g.isfinite().all()) for g in gradients):
            return False
        self.value /= 2
        return True


def rounded(numbers):
    return [float(f"{number:.8g}") for number in numbers]


def train(dtype, recipe, ranks, seed):
    net = Net(recipe.get("tied", False), recipe.get("frozen", False), recipe.get("branch", False))
    names = [name for name, _ in net.named_parameters()]
    masters = [p.detach().clone() for p in net.parameters()]
    trained = [p.requires_grad for p in net.parameters()]
    net.to(dtype)
    steps = recipe.get("accumulation", 1)
    optimizer = optimizer_for(recipe, masters)
    scale, losses = Scale(dtype), []
    for step in range(STEPS):
        sums = [None] * len(masters)
        for rank in range(ranks):
            kept = [None] * len(masters)
            for micro in range(step * steps, (step + 1) * steps):
                x = inputs(micro, rank, ranks, seed)
                takes_branch = recipe.get("branch", False) and (not recipe.get("alternates") or micro % 2 == 0)
                with torch.autocast("cpu", dtype, cache_enabled=False):
                    out = net(x.to(dtype), takes_branch)
                loss = (out.float() - x.flip(1)).square().mean()
                if rank == 0:
                    losses.append(loss.item())
                (loss / steps * scale.value if steps > 1 else loss * scale.value).backward()
                for i, p in enumerate(net.parameters()):
                    if p.grad is None:
                        continue
                    if steps > 1:
                        kept[i] = p.grad.float() if kept[i] is None else kept[i] + p.grad
                    else:
                        kept[i] = p.grad
                    p.grad = None
            for i, g in enumerate(kept):
                if g is None:
                    continue
                part = (g * (1 / ranks)).to(dtype).float()
                sums[i] = part if sums[i] is None else sums[i] + part
        gradients = [None if s is None else s.to(dtype).float() / scale.value for s in sums]
        if scale.skips([g for g in gradients if g is not None]):
            continue
        for p, g, on in zip(masters, gradients, trained):
            p.grad = g if on else None
        if recipe.get("clips"):
            torch.nn.utils.clip_grad_norm_(masters, 0.05)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for p, master in zip(net.parameters(), masters):
                p.copy_(master)
    weights = {name: rounded(master.flatten()[::7].tolist()) for name, master in zip(names, masters)}
    return {"losses": rounded(losses[-5:]), "weights": weights}


def main():
    torch.set_num_threads(1)
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    rows = []
    for dtype in (torch.bfloat16, torch.float16):
        for name, recipe in RECIPES.items():
            for ranks in (2, 3, 4):
                rows.append({"dtype": str(dtype).removeprefix("torch."), "recipe": name, "ranks": ranks,
                             **train(dtype, recipe, ranks, seed)})
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    if seed:
        print(text)
    else:
        pathlib.Path(__file__).with_suffix(".json").write_text(text)


if __name__ == "__main__":
    main()
