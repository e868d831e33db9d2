"""What bench_recompute_steps does, with torch.utils.checkpoint.

usage: recompute_steps.py plain|everything|products|turns WARM_UP_STEPS STEPS
"""
import functools
import sys
import time

import measure
import torch
from torch.nn import functional
from torch.utils import checkpoint

BATCH, TOKENS, WIDTH, HEADS, LAYERS, DROPOUT = 8, 128, 384, 6, 8, 0.1
PRODUCTS = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default,
            torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default]


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.drop = torch.nn.Dropout(DROPOUT)

    def forward(self, x):
        parts = self.qkv(self.norm_1(x)).view(x.shape[0], TOKENS, 3, HEADS, WIDTH // HEADS)
        head = [parts.select(2, i).transpose(1, 2) for i in range(3)]
        mixed = functional.scaled_dot_product_attention(*head, is_causal=True)
        middle = x + self.drop(self.out(mixed.transpose(1, 2).reshape(x.shape)))
        return middle + self.drop(self.down(functional.gelu(self.up(self.norm_2(middle)))))


class Trained:
    """A model of one kind, and how long its steps take."""

    def __init__(self, kind):
        torch.manual_seed(42)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.call = self.caller(kind)
        self.forward_seconds, self.step_seconds = [], []

    @staticmethod
    def caller(kind):
        if kind == "plain":
            return lambda block, x: block(x)
        extra = {}
        if kind == "products":
            extra["context_fn"] = functools.partial(checkpoint.create_selective_checkpoint_contexts, PRODUCTS)
        return functools.partial(checkpoint.checkpoint, use_reentrant=False, **extra)

    def step(self, x, is_timed):
        start = time.perf_counter()
        y = x
        for block in self.blocks:
            y = self.call(block, y)
        loss = y.square().mean()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        for parameter in self.blocks.parameters():
            parameter.grad = None
        if is_timed:
            self.forward_seconds.append(middle - start)
            self.step_seconds.append(end - start)


def main():
    kind, warm_up_steps, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    kinds = ["plain", "everything", "products"] if kind == "turns" else [kind]
    trained = {each: Trained(each) for each in kinds}
    x = torch.randn(BATCH, TOKENS, WIDTH)
    for each in kinds:  # A small step first, which brings the code of the operators into memory.
        trained[each].step(x[:1], False)
    before = measure.status_kib("VmHWM")
    for i in range(warm_up_steps + steps):
        for each in kinds:
            trained[each].step(x, i >= warm_up_steps)
    values = {"before_kib": before}
    for each in kinds:
        values[each + "_forward_seconds"] = trained[each].forward_seconds
        values[each + "_seconds"] = trained[each].step_seconds
    measure.report(**values)


main()
