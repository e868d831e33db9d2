#!/usr/bin/env python3
"""Checkpoints of trainings by DeepSpeed's file that cross between Transformers' Trainer and this one.

usage: deepspeed_live.py PROBE [--launcher PROGRAM] [--seed N] [--only WORD]

Each case is a file of DeepSpeed and arguments. Python's Trainer trains STEPS steps with DeepSpeed on two Gloo ranks, and
saves in the middle. Then
  - ours goes on from Python's checkpoint, and logs the same losses and rates;
  - ours trains too, its checkpoint goes through `accelerate convert-state --to universal`, and Python's goes on from it.
DELIBERATE says what is meant to differ. Exits with 1 and the differences, with 77 where there is no deepspeed.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import types

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
try:
    import deepspeed  # noqa: F401
except ImportError:
    print("there is no deepspeed in this Python")
    sys.exit(77)

import loop_live
from loop_originals import read_json

STEPS, SAVED, RANKS = 8, 4, 2
DELIBERATE = {
    "rates": "Python logs the rate after the step where DeepSpeed moves the schedule, that is one step ahead of ours",
    "bf16": "DeepSpeed computes layers wholly in bf16, ours by autocast: losses differ by rounding",
    "ZeRO 0": "DeepSpeed reads no universal checkpoint there",
}


def file_of(stage, optimizer="AdamW", schedule="", precision="", **zero):
    file = {"zero_optimization": {"stage": stage, **zero}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "zero_allow_untested_optimizer": True}
    if optimizer:
        file["optimizer"] = {"type": optimizer, "params": {"lr": "auto", "betas": "auto", "weight_decay": "auto"}}
        if optimizer != "Lion":
            file["optimizer"]["params"]["eps"] = "auto"
    if schedule:
        file["scheduler"] = {"type": schedule, "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}
        if schedule == "WarmupDecayLR":
            file["scheduler"]["params"]["total_num_steps"] = "auto"
    if precision == "fp16":
        file["fp16"] = {"enabled": True, "initial_scale_power": 22, "loss_scale_window": 2, "hysteresis": 2, "min_loss_scale": 1}
    if precision == "bf16":
        file["bf16"] = {"enabled": True}
    return file


def cases():
    cpu = {"offload_optimizer": {"device": "cpu"}}
    return {
        "zero1": file_of(1, ""), "zero2": file_of(2, ""), "zero3": file_of(3, ""), "zero0": file_of(0, ""),
        "zero1 adamw warmup": file_of(1, "AdamW", "WarmupLR"), "zero2 adamw decay": file_of(2, "AdamW", "WarmupDecayLR"),
        "zero3 adamw decay": file_of(3, "AdamW", "WarmupDecayLR"), "zero2 adamw": file_of(2, "AdamW"),
        "zero2 offload": file_of(2, "AdamW", "WarmupDecayLR", **cpu), "zero3 offload": file_of(3, "AdamW", "WarmupDecayLR", **cpu),
        "zero2 lion": file_of(2, "Lion", "WarmupLR", **cpu), "zero3 lion": file_of(3, "Lion", "WarmupLR", **cpu),
        "zero1 fp16": file_of(1, "AdamW", "WarmupDecayLR", "fp16"), "zero2 fp16": file_of(2, "AdamW", "WarmupLR", "fp16"),
        "zero3 fp16": file_of(3, "AdamW", "WarmupLR", "fp16"), "zero2 fp16 lion": file_of(2, "Lion", "WarmupLR", "fp16", **cpu),
        "zero1 bf16": file_of(1, "AdamW", "WarmupLR", "bf16"), "zero3 bf16": file_of(3, "AdamW", "WarmupLR", "bf16"),
    }


def arguments_of(name, file, path):
    arguments = {"max_steps": STEPS, "save_steps": SAVED, "logging_steps": 1, "per_device_train_batch_size": 4, "learning_rate": 5e-3,
                 "weight_decay": 0.05, "warmup_steps": 3, "max_grad_norm": 0.7, "report_to": "none", "disable_tqdm": True,
                 "eval_strategy": "no", "deepspeed": path, "gradient_accumulation_steps": 2 if "adamw" in name else 1, "use_cpu": True}
    for precision in ("fp16", "bf16"):
        if precision in file:
            arguments[precision] = True
    return arguments


# --- a rank of DeepSpeed -----------------------------------------------------------------------------------------------

def rank_of_deepspeed(path):
    import torch
    import accelerate
    from deepspeed.accelerator import get_accelerator
    type(get_accelerator()).is_fp16_supported = lambda self: True  # PyTorch computes in it, only slowly.
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo", verbose=False)
    initialize = accelerate.PartialState.__init__

    def with_ranks(self, *given, **named):  # Beside DeepSpeed it finds ranks on GPUs alone.
        initialize(self, *given, **named)
        self.num_processes, self.process_index, self.device = RANKS, int(os.environ["RANK"]), torch.device("cpu")
    accelerate.PartialState.__init__ = with_ranks
    loop_live.worker(path)



# --- both sides ---------------------------------------------------------------------------------------------------------

class Workplace(loop_live.Workplace):
    def run_python(self, spec, processes=RANKS):
        """Python's answer; its sentence in "error"."""
        spec = dict(spec, answer=os.path.join(self.folder, f"{self.count}-answer.json"))
        pathlib.Path(spec["answer"]).unlink(missing_ok=True)
        path = self.write(f"{self.count}-theirs.json", spec)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = []
        for rank in range(processes):
            environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "RANK": str(rank),
                                        "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1",
                                        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
            environment.setdefault("TORCH_EXTENSIONS_DIR", f"{sys.prefix}/torch_extensions")
            ranks.append(subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--worker", path], env=environment, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            return {"error": outputs[0][-3000:]}
        return read_json(spec["answer"])

    def convert(self, checkpoint, output):
        command = [self.launcher, "convert-state", checkpoint, output, "--to", "universal"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout + done.stderr if done.returncode else ""


def losses_of(folder, since):
    history = read_json(os.path.join(folder, "trainer_state.json"))["log_history"]
    return [(entry["step"], entry["loss"], entry["learning_rate"]) for entry in history if "loss" in entry and entry["step"] > since]


def difference_of(ours, theirs, tolerance):
    """What differs of two lists of steps, losses and rates; "" if nothing does. The rates are compared within one side: see DELIBERATE."""
    if [row[0] for row in ours] != [row[0] for row in theirs]:
        return f"steps {[row[0] for row in ours]}, Python's {[row[0] for row in theirs]}"
    loss = max(abs(a[1] - b[1]) for a, b in zip(ours, theirs))
    rate = max(abs(a[2] - b[2]) for a, b in zip(ours, theirs))
    return f"losses differ by {loss:.2g}, rates by {rate:.2g}" if loss > tolerance or rate > 1e-12 else ""


def checkpoint_alone(source, target):
    os.makedirs(target)
    shutil.copytree(os.path.join(source, f"checkpoint-{SAVED}"), os.path.join(target, f"checkpoint-{SAVED}"))
    return os.path.join(target, f"checkpoint-{SAVED}")


def compare(place, name, file):
    path = place.write(name.replace(" ", "-") + ".json", file)
    case = types.SimpleNamespace(name=name, kind="classes", arguments=arguments_of(name, file, path), extras={}, rows=80, eval_rows=4)
    spec = place.spec(case)
    del spec["data"]["eval"]
    tolerance = 2e-2 if "bf16" in file else 2e-3 if "fp16" in file else 1e-5
    folder = lambda side: os.path.join(place.folder, f"{place.count}-{side}")
    within = lambda side: dict(spec, arguments=spec["arguments"] | {"output_dir": folder(side)})
    differences = []

    def check(what, answer, side, losses, rates):
        wanted = [(step, loss, rate) for (step, loss, _), (_, _, rate) in zip(losses, rates)]
        if "error" in answer:
            differences.append(f"{what}: {answer['error'][-1500:]} {answer.get('stderr', '')[-1500:]}")
        elif said := difference_of(losses_of(folder(side), SAVED), wanted, tolerance):
            differences.append(f"{what}: {said}")

    theirs = place.run_python(within("theirs"))
    if "error" in theirs:
        return [f"Python: {theirs['error']}"]
    wanted = losses_of(folder("theirs"), SAVED)
    answer = place.run_ours(within("ours"), RANKS)
    if "error" in answer:
        return differences + [f"ours: {answer}"]
    own = losses_of(folder("ours"), SAVED)
    start = checkpoint_alone(folder("theirs"), folder("from-theirs"))
    check("ours from Python's", place.run_ours(dict(within("from-theirs"), resume=start), RANKS), "from-theirs", wanted, own)
    if file["zero_optimization"]["stage"] == 0:
        return differences
    os.makedirs(folder("from-ours"))
    start = os.path.join(folder("from-ours"), f"checkpoint-{SAVED}")
    if said := place.convert(os.path.join(folder("ours"), f"checkpoint-{SAVED}"), start):
        return differences + [f"convert-state: {said}"]
    universal = place.write(name.replace(" ", "-") + "-universal.json", dict(file, checkpoint={"load_universal": True}))
    back = within("from-ours")
    back["arguments"]["deepspeed"] = universal
    check("Python's from ours", place.run_python(dict(back, resume=start)), "from-ours", own, wanted)
    return differences


def main():
    if sys.argv[1:2] == ["--worker"]:
        return rank_of_deepspeed(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("--launcher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name has this word")
    parser.add_argument("--keep", help="an empty folder for all that is made")
    options = parser.parse_args()
    options.probe = os.path.abspath(options.probe)
    options.launcher = options.launcher or os.path.join(os.path.dirname(os.path.dirname(options.probe)), "bin", "accelerate")
    chosen = {name: file for name, file in cases().items() if options.only in name}
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(options, options.keep or folder)
        for name, file in chosen.items():
            differences = compare(place, name, file)
            faults += bool(differences)
            print(f"{name}: {len(differences)} differences", *differences, sep="\n  ", flush=True)
    print(f"{len(chosen)} trainings crossed, {faults} differ; seed {options.seed}")
    return 1 if faults or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
