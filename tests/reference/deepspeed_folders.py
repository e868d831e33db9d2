#!/usr/bin/env python3
"""State folders of Python Accelerate under DeepSpeed. usage: deepspeed_folders.py FOLDER [--seed N] [--case NAME…] [--golden]

Each case trains on Gloo ranks, saves after STEPS steps and goes on. FOLDER/<case>/ gets
  state/              what save_state wrote, or what save_checkpoint of DeepSpeed or ds_to_universal.py did
  merged.safetensors  what zero_to_fp32.py makes of it; absent where it refuses the folder
  state.safetensors   weights and moments as DeepSpeed's safe_get_full_… gave them: "fp32.<name>", "exp_avg.<name>"
  run.json            the case; the losses of the STEPS steps that follow, and the weights at the end. Under bf16 plain
                      PyTorch takes them in fp32, from the same weights and moments
--resume goes on from FOLDER/<case>/universal, which was written here, and compares with FOLDER/<case>/losses.json.
--golden packs them into deepspeed_folders.tar.xz beside this script.

Needs a Python with deepspeed 0.19.8, accelerate and transformers; HACKING.md says how to make one.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tarfile

STEPS, BATCH, INPUTS, HIDDEN = 5, 4, 5, 7
HERE = pathlib.Path(__file__).resolve().parent


def cases(seed=0):
    """By name. The seed moves what the first weights and the batches are."""
    def case(name, **more):
        return name, {"name": name, "seed": seed, "stage": 2, "dtype": "fp32", "ranks": 2, "optimizer": "AdamW", **more}
    return dict(
        [case(f"zero{stage}_{dtype}", stage=stage, dtype=dtype) for stage in range(4) for dtype in ("fp32", "bf16")] +
        [case("zero2_three_ranks", ranks=3), case("zero3_three_ranks", stage=3, ranks=3),
         case("zero1_bf16_fp32_gradients", stage=1, dtype="bf16", gradients="fp32"),
         case("zero3_sub_groups", stage=3, sub_group_size=30), case("zero2_groups", groups=True),
         case("zero3_groups", stage=3, groups=True), case("zero2_sgd", optimizer="SGD"), case("zero2_plain_sgd", optimizer="plain SGD"),
         case("zero3_adagrad", stage=3, optimizer="Adagrad"), case("zero1_adam", stage=1, optimizer="Adam"),
         case("zero2_offload", optimizer="config AdamW", offload=True, schedule="WarmupLR"),
         case("zero2_steplr", schedule="StepLR"), case("zero2_checkpoint", writer="engine", schedule="WarmupLR"),
         case("zero1_universal", stage=1, writer="universal"), case("zero3_universal", stage=3, writer="universal"),
         case("zero2_without_frozen", writer="engine", exclude_frozen=True)])


GOLDEN = ("zero0_fp32", "zero0_bf16", "zero1_bf16", "zero2_fp32", "zero2_groups", "zero3_bf16", "zero3_sub_groups", "zero3_three_ranks",
          "zero2_offload", "zero2_sgd", "zero1_universal", "zero3_universal")


def waves(count, start, pace):
    import torch
    return torch.sin(torch.arange(count, dtype=torch.float64) * pace + start).float()


def make_net(seed):
    import torch

    class Net(torch.nn.Module):
        """A frozen layer, a weight with two names, and buffers."""

        def __init__(self):
            super().__init__()
            self.first, self.norm = torch.nn.Linear(INPUTS, HIDDEN), torch.nn.LayerNorm(HIDDEN)
            self.frozen = torch.nn.Linear(HIDDEN, HIDDEN)
            self.last, self.tied = torch.nn.Linear(HIDDEN, 3, bias=False), torch.nn.Linear(HIDDEN, 3)
            self.tied.weight = self.last.weight
            self.register_buffer("scale", torch.full((1,), 1.25))
            self.register_buffer("count", torch.tensor(3))
            with torch.no_grad():
                for index, leaf in enumerate(self.parameters()):
                    leaf.copy_(0.5 * waves(leaf.numel(), 0.3 * index + seed, 1.7).view(leaf.shape))
            self.frozen.requires_grad_(False)

        def forward(self, x):
            hidden = torch.tanh(self.norm(self.first(x)))
            hidden = torch.tanh(self.frozen(hidden)) * self.scale.to(hidden.dtype)
            return self.last(hidden) + self.tied(hidden)
    return Net()


def batch(step, rank, seed):
    x = waves(BATCH * INPUTS, 0.1 + step + 10 * rank + seed, 0.37).view(BATCH, INPUTS)
    return x, x[:, :3] * x.sum(1, keepdim=True)


def optimizer_of(net, case):
    import torch
    trained = [p for p in net.parameters() if p.requires_grad]
    if case.get("groups"):
        trained = [{"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0},
                   {"params": [p for p in trained if p.ndim > 1], "lr": 0.01}]
    make = {"AdamW": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1), "Adam": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.1),
            "SGD": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9), "plain SGD": lambda p: torch.optim.SGD(p, lr=0.02),
            "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.02)}
    return make[case["optimizer"]](trained)


def config_of(case):
    zero = {"stage": case["stage"]}
    if case.get("sub_group_size"):
        zero["sub_group_size"] = case["sub_group_size"]
    if case.get("offload"):
        zero["offload_optimizer"] = {"device": "cpu"}
    config = {"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": zero, "bf16": {"enabled": case["dtype"] == "bf16"},
              "zero_force_ds_cpu_optimizer": bool(case.get("offload")), "zero_allow_untested_optimizer": True}
    if case.get("gradients"):
        config["data_types"] = {"grad_accum_dtype": case["gradients"]}
    if case["optimizer"].startswith("config "):
        config["optimizer"] = {"type": case["optimizer"].split()[1], "params": {"lr": 0.02, "weight_decay": 0.1}}
    if case.get("schedule") == "WarmupLR":
        config["scheduler"] = {"type": "WarmupLR", "params": {"warmup_min_lr": 0.0, "warmup_max_lr": 0.02, "warmup_num_steps": 8}}
    return config


class Run:
    def __init__(self, case, universal=False):
        import torch
        from accelerate import Accelerator, DeepSpeedPlugin, PartialState
        from accelerate.utils import DummyOptim, DummyScheduler, set_seed
        from torch.utils.data import DataLoader, TensorDataset
        self.case = case
        set_seed(1)  # Equal random states make a small archive.
        config = config_of(case) | ({"checkpoint": {"load_universal": True}} if universal else {})
        self.accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config))
        for state in (PartialState(), self.accelerator.state):  # Accelerate counts no ranks under DeepSpeed without GPUs.
            state.process_index, state.num_processes = torch.distributed.get_rank(), case["ranks"]
        self.net = make_net(case["seed"])
        if universal:  # The trained weights come from the checkpoint; DeepSpeed takes no others from it.
            with torch.no_grad():
                for leaf in self.net.parameters():
                    leaf.add_(0.5 if leaf.requires_grad else 0)
        if case["optimizer"].startswith("config "):
            optimizer = DummyOptim([p for p in self.net.parameters() if p.requires_grad], lr=0.02, weight_decay=0.1)
        else:
            optimizer = optimizer_of(self.net, case)
        schedule = None
        if case.get("schedule") == "WarmupLR":
            schedule = DummyScheduler(optimizer, warmup_num_steps=8)
        if case.get("schedule") == "StepLR":
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
        loader = DataLoader(TensorDataset(torch.zeros(BATCH, 1)), batch_size=BATCH)
        things = [self.net, optimizer, loader] + ([schedule] if schedule else [])
        self.engine, self.optimizer, _, *rest = self.accelerator.prepare(*things)
        self.schedule = rest[0] if rest else None

    def train(self, first, last):
        import torch
        losses = []
        for step in range(first, last):
            x, target = batch(step, self.accelerator.process_index, self.case["seed"])
            scores = self.engine(x.bfloat16() if self.case["dtype"] == "bf16" else x)
            loss = torch.nn.functional.mse_loss(scores.float(), target)
            self.accelerator.backward(loss)
            self.optimizer.step()
            if self.schedule is not None:
                self.schedule.step()
            self.optimizer.zero_grad()
            of_ranks = [None] * self.case["ranks"]
            torch.distributed.all_gather_object(of_ranks, loss.item())
            losses.append(sum(of_ranks) / len(of_ranks))
        return losses

    def save(self, folder):
        import torch
        state = folder / "state"
        if self.case.get("writer"):
            self.engine.save_checkpoint(str(state), tag="global_step5", exclude_frozen_parameters=self.case.get("exclude_frozen", False))
        else:
            self.accelerator.save_state(str(state))
        torch.distributed.barrier()

    def full_state(self):
        """[collective] What DeepSpeed says of its weights and moments; nothing of ZeRO 0."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
        entries = {"AdamW": ("exp_avg", "exp_avg_sq"), "Adam": ("exp_avg", "exp_avg_sq"), "SGD": ("momentum_buffer",), "Adagrad": ("sum",)}
        entries = entries.get(self.case["optimizer"].split()[-1], ()) if self.case["optimizer"] != "plain SGD" else ()
        state = {}
        if hasattr(self.engine.optimizer, "_lazy_init_hp_params_optimizer_state"):  # It does so after the step of the first group.
            self.engine.optimizer._hp_optimizer_states_linked = False
            self.engine.optimizer._lazy_init_hp_params_optimizer_state()
        for name, leaf in self.engine.module.named_parameters():
            if self.case["stage"] == 0 or not leaf.requires_grad:
                continue
            state[f"fp32.{name}"] = safe_get_full_fp32_param(leaf).clone().contiguous()
            for entry in entries:
                state[f"{entry}.{name}"] = safe_get_full_optimizer_state(leaf, entry).clone().contiguous()
        return state

    def weights(self):
        import deepspeed
        import torch
        with deepspeed.zero.GatheredParameters(list(self.engine.module.parameters()), enabled=self.case["stage"] == 3), torch.no_grad():
            return {name: tensor.double().flatten().tolist() for name, tensor in self.engine.module.state_dict().items()}


def torch_goes_on(case, folder):
    """The steps that follow in fp32, by plain PyTorch, from the state of a bf16 training."""
    import torch
    from safetensors.torch import load_file
    net = make_net(case["seed"])
    saved = torch.load(next((folder / "state").glob("*/*_model_states.pt")), weights_only=False)
    frozen = saved["frozen_param_fragments"] or saved["module"]
    if case["stage"] == 0:
        fp32 = [tensor for group in saved["optimizer"]["fp32_groups"] for tensor in group]
        moments = saved["optimizer"]["optimizer_state_dict"]["state"]
        state, steps = {}, moments[0]["step"].item()  # It steps once before the first.
        for index, (name, leaf) in enumerate((n, p) for n, p in net.named_parameters() if p.requires_grad):
            state[f"fp32.{name}"] = fp32[index]
            state |= {f"{entry}.{name}": moments[index][entry] for entry in ("exp_avg", "exp_avg_sq")}
    else:
        state, steps = load_file(folder / "state.safetensors"), STEPS
    optimizer = optimizer_of(net, case)
    for name, leaf in net.named_parameters():
        with torch.no_grad():
            if leaf.requires_grad:
                leaf.copy_(state[f"fp32.{name}"].view(leaf.shape))
            elif case["stage"] == 3:
                shards = [torch.load(folder / f"state/pytorch_model/zero_pp_rank_{rank}_mp_rank_00_model_states.pt", weights_only=False)
                          ["frozen_param_fragments"][name] for rank in range(case["ranks"])]
                leaf.copy_(torch.cat(shards)[:leaf.numel()].view(leaf.shape))
            else:
                leaf.copy_(frozen[name])
        if leaf.requires_grad:
            optimizer.state[leaf] = {"step": torch.tensor(float(steps)), **{entry: state[f"{entry}.{name}"].view(leaf.shape).clone()
                                                                           for entry in ("exp_avg", "exp_avg_sq")}}
    losses = []
    for step in range(STEPS, 2 * STEPS):
        batches = [batch(step, rank, case["seed"]) for rank in range(case["ranks"])]
        x, target = (torch.cat(parts) for parts in zip(*batches))
        loss = torch.nn.functional.mse_loss(net(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: tensor.double().flatten().tolist() for name, tensor in net.state_dict().items()}


def one_rank(folder, case):
    import torch
    from safetensors.torch import save_file
    torch.set_num_threads(1)
    run = Run(case)
    before = run.train(0, STEPS)
    run.save(folder)
    state = run.full_state()
    losses = run.train(STEPS, 2 * STEPS)
    weights = run.weights()
    if torch.distributed.get_rank() == 0:
        if state:
            save_file(state, folder / "state.safetensors")
        if case["dtype"] == "bf16":
            losses, weights = torch_goes_on(case, folder)
        rates = [group["lr"] for group in run.optimizer.param_groups]
        row = dict(case, before=before, losses=losses, weights=weights, rates=rates)
        (folder / "run.json").write_text(json.dumps(row))
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # Threads of DeepSpeed may outlive main().


def resume_rank(folder, case):
    """Goes on from what was written here. Says how far the losses are apart."""
    import torch
    torch.set_num_threads(1)
    run = Run(case, universal=True)
    run.accelerator.load_state(str(folder / "universal"))
    losses = run.train(2 * STEPS, 3 * STEPS)
    wanted = json.loads((folder / "losses.json").read_text())
    apart = max(abs(one - other) for one, other in zip(losses, wanted))
    if torch.distributed.get_rank() == 0:
        (folder / "apart.json").write_text(json.dumps(apart))
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)


def resume(folder, case):
    together(case["ranks"], [__file__, "--resume-rank", json.dumps(case), str(folder)])
    apart = json.loads((folder / "apart.json").read_text())
    print(f"{case['name']}: losses differ by {apart:.1e} at most", flush=True)
    return apart <= 1e-5


def merge(folder):
    """What zero_to_fp32.py makes of the folder."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    from safetensors.torch import save_file
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        merged = get_fp32_state_dict_from_zero_checkpoint(str(folder / "state"))
    save_file({name: tensor.clone().contiguous() for name, tensor in merged.items()}, folder / "merged.safetensors")


def to_universal(folder):
    source = folder / "state" / "global_step5"
    subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(source), "--output_folder",
                    str(folder / "universal" / "global_step5"), "--num_extract_workers", "1", "--num_merge_workers", "1",
                    "--inject_missing_state"], check=True, capture_output=True)
    shutil.rmtree(folder / "state")
    (folder / "universal").rename(folder / "state")


def environment(rank, ranks, port):
    return os.environ | {
        "DS_ACCELERATOR": "cpu", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
        "TORCH_EXTENSIONS_DIR": os.environ.get("TORCH_EXTENSIONS_DIR", f"{sys.prefix}/torch_extensions"),
        "PYTHONWARNINGS": "ignore", "ACCELERATE_USE_DEEPSPEED": "true"}


def together(ranks, arguments):
    """Runs this script on so many ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [subprocess.Popen([sys.executable, *arguments], env=environment(rank, ranks, port), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for rank in range(ranks)]
    told = [process.communicate(timeout=600)[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(told))


def make(folder, case):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    together(case["ranks"], [__file__, "--rank", json.dumps(case), str(folder)])
    if case["stage"] > 0 and not case.get("gradients"):  # It refuses BF16_Optimizer too.
        merge(folder)
    if case.get("writer") == "universal":
        to_universal(folder)
    for script in ("zero_to_fp32.py", "zero_to_torch.py"):  # Copies of DeepSpeed's own.
        (folder / "state" / script).unlink(missing_ok=True)


def pack(folder, names):
    def plain(entry):
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        return entry
    with tarfile.open(HERE / "deepspeed_folders.tar.xz", "w:xz", preset=9) as archive:
        for name in sorted(names):
            archive.add(folder / name, name, filter=plain)


def main():
    if sys.argv[1] == "--rank":
        return one_rank(pathlib.Path(sys.argv[3]), json.loads(sys.argv[2]))
    if sys.argv[1] == "--resume-rank":
        return resume_rank(pathlib.Path(sys.argv[3]), json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=float, default=0)
    parser.add_argument("--case", nargs="*")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    os.environ |= environment(0, 1, 0)
    known = cases(arguments.seed)
    if arguments.resume:  # ZeRO 3 of DeepSpeed reads the moments of Adam alone, and its sub-groups share one count of steps.
        found = [name for name in known if (arguments.folder / name / "universal").exists()
                 and not (known[name]["stage"] == 3 and known[name]["optimizer"] == "Adagrad")
                 and "sub_group_size" not in known[name] and not (known[name]["stage"] == 3 and known[name].get("groups"))]
        if not found or not all([resume(arguments.folder / name, known[name]) for name in found]):
            raise SystemExit("DeepSpeed does not go on as here")
        return None
    names = GOLDEN if arguments.golden else arguments.case or list(known)
    for name in names:
        make(arguments.folder / name, known[name])
        print(name, flush=True)
    if arguments.golden:
        pack(arguments.folder, names)


if __name__ == "__main__":
    main()
