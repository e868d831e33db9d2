"""Joins the group, sums a tensor over the ranks once, and says on rank 0 when that was done."""
import time

import torch
from accelerate import Accelerator

import measure

accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.ones(1))
finished_ns = time.time_ns()
assert total.item() == accelerator.num_processes
if accelerator.is_main_process:
    measure.report(finished_ns=finished_ns, ranks=accelerator.num_processes)
accelerator.end_training()
