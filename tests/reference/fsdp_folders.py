#!/usr/bin/env python3
"""State folders of Python Accelerate's FSDP for the C++ tests to go on from.

usage: fsdp_folders.py live FOLDER [--seed N] | resume FOLDER [--seed N] | golden

live: two processes train a small network with FSDP 1 and FSDP 2, save it in each state_dict_type and go on.
FOLDER/<case>/ is what was saved after STEPS steps; FOLDER/runs.json has what each case is and the losses of the STEPS
steps that follow; FOLDER/<case>.safetensors has the whole weights at the time of saving.
resume: FOLDER/<optimizer> are states that `accelerate convert-state` wrote after STEPS steps. FSDP 1 and 2 load each into
a network with other weights and go on; FOLDER/resumed.json has the losses of their STEPS steps and the rates.
golden: writes some of the cases to the folder fsdp_folders beside this script, without their random states.

FSDP of Accelerate wants an accelerator; here it runs on the CPU with Gloo, so its state is told that it is FSDP.
"""
import argparse
import functools
import json
import os
import pathlib
import shutil
import socket
import sys

import torch
import torch.distributed as dist

STEPS, BATCH, INPUTS, HIDDEN = 5, 6, 4, 5
WORLD = 2
CASES = {  # name: FSDP's version, state_dict_type, use_dcp, optimizer, more
    "fsdp1_sharded": (1, "SHARDED_STATE_DICT", True, "AdamW", {}),
    "fsdp1_flat": (1, "SHARDED_STATE_DICT", True, "AdamW", {"use_orig_params": False}),
    "fsdp1_sgd": (1, "SHARDED_STATE_DICT", True, "SGD", {}),
    "fsdp1_ranks": (1, "SHARDED_STATE_DICT", False, "AdamW", {}),
    "fsdp1_full": (1, "FULL_STATE_DICT", True, "AdamW", {}),
    "fsdp1_local": (1, "LOCAL_STATE_DICT", True, "AdamW", {}),
    "fsdp1_bf16": (1, "SHARDED_STATE_DICT", True, "AdamW", {"bf16": True}),
    "fsdp2_sharded": (2, "SHARDED_STATE_DICT", True, "AdamW", {}),
    "fsdp2_sgd": (2, "SHARDED_STATE_DICT", True, "SGD", {}),
    "fsdp2_ranks": (2, "SHARDED_STATE_DICT", False, "AdamW", {}),
    "fsdp2_full": (2, "FULL_STATE_DICT", True, "AdamW", {}),
    "fsdp2_bf16": (2, "SHARDED_STATE_DICT", True, "AdamW", {"bf16": True}),
    "fsdp2_bf16_ranks": (2, "SHARDED_STATE_DICT", False, "AdamW", {"bf16": True}),
}
GOLDEN = ["fsdp1_sgd", "fsdp1_local", "fsdp2_ranks"]


def waves(count, start, pace):
    return torch.sin(torch.arange(count, dtype=torch.float64) * pace + start).float()


class Net(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(INPUTS, HIDDEN), torch.nn.LayerNorm(HIDDEN)
        self.last = torch.nn.Linear(HIDDEN, 2)
        self.register_buffer("shift", torch.full((3,), 0.25))
        with torch.no_grad():
            for index, leaf in enumerate(self.parameters()):
                leaf.copy_(0.5 * waves(leaf.numel(), 0.3 * index + seed, 1.7).view(leaf.shape))

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x)))).mean(1, keepdim=True) + self.shift[0]


def batch(step, seed, rank):
    x = waves(BATCH * INPUTS, 0.1 + step + seed, 0.37).view(BATCH, INPUTS)
    mine = slice(rank * BATCH // WORLD, (rank + 1) * BATCH // WORLD)
    return x[mine], x.sum(1, keepdim=True)[mine]


def make_optimizer(name, net):
    first, rest = list(net.last.parameters()), [*net.first.parameters(), *net.norm.parameters()]
    if name == "SGD":
        return torch.optim.SGD([{"params": first}, {"params": rest, "lr": 0.01}], lr=0.02, momentum=0.9)
    return torch.optim.AdamW([{"params": first, "weight_decay": 0.0}, {"params": rest}], lr=0.02, weight_decay=0.1)


def make_accelerator(version, kind, use_orig_params):
    from accelerate import Accelerator, DataLoaderConfiguration, FullyShardedDataParallelPlugin
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from accelerate.utils import DistributedType
    AcceleratorState._reset_state()
    GradientState._reset_state()
    PartialState._shared_state.pop("distributed_type", None)
    if PartialState._shared_state:
        PartialState._shared_state["distributed_type"] = DistributedType.MULTI_CPU
    os.environ.pop("ACCELERATE_USE_FSDP", None)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
    more = {"use_orig_params": use_orig_params, "auto_wrap_policy": "size_based_wrap", "min_num_params": 20} if version == 1 \
        else {"auto_wrap_policy": "no_wrap", "reshard_after_forward": True}
    plugin = FullyShardedDataParallelPlugin(fsdp_version=version, state_dict_type=kind, cpu_ram_efficient_loading=False, **more)
    for state in (PartialState, AcceleratorState):
        state._shared_state["distributed_type"] = DistributedType.FSDP
    AcceleratorState._shared_state["fsdp_plugin"] = plugin
    return accelerator, plugin


class NoOffload:
    """FSDP 1 on the CPU crashes when it is to move a full state to the CPU."""

    def __init__(self, config):
        object.__setattr__(self, "config", config)

    def __setattr__(self, name, value):
        pass


def use_files(use_dcp):
    import accelerate.accelerator as owner
    from accelerate.utils import fsdp_utils
    for name in ("save_fsdp_model", "save_fsdp_optimizer", "load_fsdp_model", "load_fsdp_optimizer"):
        setattr(owner, name, functools.partial(getattr(fsdp_utils, name), use_dcp=use_dcp))


def step_once(accelerator, model, optimizer, schedule, number, seed):
    x, target = batch(number, seed, dist.get_rank())
    if next(model.parameters()).dtype == torch.bfloat16:
        x, target = x.bfloat16(), target.bfloat16()
    loss = torch.nn.functional.mse_loss(model(x), target)
    accelerator.backward(loss)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    mean = loss.detach().float()
    dist.all_reduce(mean)
    return mean.item() / WORLD


def whole_weights(model):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    if hasattr(model, "_fsdp_wrapped_module"):
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        with FSDP.summon_full_params(model, writeback=False):
            return {n.replace("_fsdp_wrapped_module.", ""): t.detach().clone() for n, t in
                    [*model.named_parameters(), *model.named_buffers()]}
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def run_case(name, folder, seed):
    from safetensors.torch import save_file
    from transformers import get_scheduler
    version, kind, use_dcp, optimizer_name, more = CASES[name]
    accelerator, plugin = make_accelerator(version, kind, more.get("use_orig_params", True))
    if version == 1 and kind == "FULL_STATE_DICT":
        for config in (plugin.state_dict_config, plugin.optim_state_dict_config):
            type(config).__setattr__ = lambda self, key, value: None if key == "offload_to_cpu" and value else \
                object.__setattr__(self, key, value)
            config.offload_to_cpu = False
    use_files(use_dcp)
    net = Net(seed)
    net = net.bfloat16() if more.get("bf16") else net
    if more.get("use_orig_params", True):
        model, optimizer = accelerator.prepare(net, make_optimizer(optimizer_name, net))
    else:  # Flat parameters are made by prepare(), and have no groups.
        model = accelerator.prepare(net)
        optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1))
    schedule = accelerator.prepare(get_scheduler("linear", optimizer, num_warmup_steps=3, num_training_steps=12))
    for number in range(STEPS):
        step_once(accelerator, model, optimizer, schedule, number, seed)
    accelerator.save_state(folder / name)
    weights = whole_weights(model)
    if dist.get_rank() == 0:
        save_file({n: t.contiguous() for n, t in weights.items()}, folder / f"{name}.safetensors")
    losses = [step_once(accelerator, model, optimizer, schedule, STEPS + n, seed) for n in range(STEPS)]
    return {"fsdp": version, "kind": kind, "optimizer": optimizer_name, "losses": losses, "seed": seed,
            "groups": more.get("use_orig_params", True), "bf16": bool(more.get("bf16")),
            "rates": [group["lr"] for group in optimizer.param_groups]}


def resume_case(version, optimizer_name, folder, seed):
    from transformers import get_scheduler
    accelerator, _ = make_accelerator(version, "SHARDED_STATE_DICT", True)
    use_files(True)
    net = Net(seed + 40)
    model, optimizer = accelerator.prepare(net, make_optimizer(optimizer_name, net))
    schedule = accelerator.prepare(get_scheduler("linear", optimizer, num_warmup_steps=3, num_training_steps=12))
    if version == 1:  # Accelerate loads into the state that there is, and FSDP 1 makes none by itself.
        step_once(accelerator, model, optimizer, schedule, 0, seed)
    accelerator.load_state(folder)
    losses = [step_once(accelerator, model, optimizer, schedule, STEPS + n, seed) for n in range(STEPS)]
    return {"losses": losses, "rates": [group["lr"] for group in optimizer.param_groups]}


def work(rank, folder, names, seed, port):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), ACCELERATE_USE_CPU="true", OMP_NUM_THREADS="1")
    import torch.distributed.fsdp._init_utils as init_utils
    init_utils._get_compute_device = lambda *_: torch.device("cpu")
    runs = {}
    for name in names or []:
        runs[name] = run_case(name, folder, seed)
        dist.barrier()
    if not names:
        for version in (1, 2):
            for optimizer in ("AdamW", "SGD"):
                runs[f"fsdp{version} {optimizer}"] = resume_case(version, optimizer, folder / optimizer, seed)
    if rank == 0:
        (folder / ("runs.json" if names else "resumed.json")).write_text(json.dumps(runs, indent=1) + "\n")
    dist.destroy_process_group()


def run(folder, names, seed):
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (folder, names, seed, port), nprocs=WORLD)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("mode", choices=["live", "resume", "golden"])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a case, or several with commas between")
    options = parser.parse_args()
    if options.mode == "golden":
        os.chdir(pathlib.Path(__file__).parent)  # The folder's path becomes a part of .metadata.
        folder = pathlib.Path("fsdp_folders")
        shutil.rmtree(folder, ignore_errors=True)
        run(folder, GOLDEN, 0)
        for random_state in folder.glob("*/random_states_*"):
            random_state.unlink()
    elif options.mode == "resume":
        run(options.folder, None, options.seed)
    else:
        run(options.folder, options.only.split(",") if options.only else list(CASES), options.seed)


if __name__ == "__main__":
    sys.exit(main())
