"""Python Accelerate as a launched program: an all-reduce over the ranks, the result checked by each."""
import sys

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.tensor([float(accelerator.process_index + 1)]), "sum")
expected = sum(range(1, accelerator.num_processes + 1))
assert total.item() == expected, (total.item(), expected)
# One write a line: print makes two of it, between which another rank may write.
sys.stdout.write(f"rank {accelerator.process_index} of {accelerator.num_processes}: sum {total.item():.0f}\n")
accelerator.end_training()
