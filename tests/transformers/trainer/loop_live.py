#!/usr/bin/env python3
"""Trains the same models on the same rows by this library's Trainer and by Transformers', and compares all that they leave.

usage: loop_live.py PROBE [--quick | --rounds K] [--seed N] [--only TEXT] [--launcher PROGRAM] [--keep FOLDER]

A case is a set of arguments; both sides begin with the same weights and draw the same order. Compared are: steps, callbacks' events,
log_history, trainer_state.json (of the run and of each checkpoint; Python loads ours), the checkpoints that are left, the weights of
each, all_results.json, evaluations and predictions. Then trainings go on from checkpoints: ours from ours, and ours from Python's.
--quick runs a fixed choice; without it the whole table and K random combinations. Exits with 77 where Transformers is missing.
DELIBERATE lists what is meant to differ. Exits 1 and prints the differences.
"""
import argparse
import importlib.util
import json
import math
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
for variable in ("ACCELERATE_MIXED_PRECISION", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
    if "--worker" not in sys.argv:
        os.environ.pop(variable, None)
try:
    import numpy as np
    import torch
    import transformers
    from safetensors.torch import load_file
    from transformers import trainer_callback

    from loop_originals import read_json, run_python_here
    MISSING = None
except ImportError as error:
    MISSING = error

from loop_cases import AUTO_MODELS, KINDS, make_model, make_rows, make_tokenizer, random_case, table

# What is meant to differ, and why.
DELIBERATE = {
    "eval_model_preparation_time": "Python logs it where evaluate() comes before train(); it says nothing of the model",
    "losses that are no shares": "models whose loss does not read num_items_in_batch (BERT, DistilBERT: all heads with a loss of their own) train in "
                                 "Python on the sum of micro-batches' means, and with several processes on that many times as much; ours divide. "
                                 "Here Python gets the same loss by compute_loss_func where that matters (mend())",
    "labels of GPT-2": "Python counts the first label of each row, which nothing predicts, among GPT2LMHeadModel's; ours does not (mend())",
    "num_items of regression": "a mean over rows is divided by the micro-batches; Python does not (mend())",
    "train_loss of several processes": "Python adds what was not logged of its own rank alone; ours is the mean over ranks",
    "the loss of an evaluation": "ours is the mean over all that was judged: over labels for losses of tokens, over rows for others. Python's is the mean "
                                 "over rows of their batches' losses, with the rows that are repeated on several processes in those of the last batch. Here "
                                 "Python gets the mean over all (MeanOfAll)",
    "logits of padding": "models here do not compute them: they are 0, in Python something. Predictions are compared where a row has tokens",
    "total_flos in train()'s metrics": "Python's progress callbacks drop it from the metrics on their way when there is no bar",
    "stateful_callbacks of output_dir/trainer_state.json": "Python has those of the last checkpoint, ours are of the moment of save_state()",
    "bf16_full_eval": "Python's model stays in bfloat16 after evaluate(); ours goes back to the weights it was trained with",
    "save_model() of schedule_free_adamw": "ours saves the average, which is the result; Python saves that only behind an evaluation",
    "the end of a stream": "the micro-batches that are left over at the end of a pass make a step of their own, as those of sized data do; Python keeps "
                           "their gradients for the next pass",
    "going on in a stream": "Python takes all steps for one pass and begins anew where that is longer than the stream; ours goes on in its pass, as the "
                            "run that did not stop",
    "going on behind max_steps": "from a checkpoint of the last step inside an epoch Python trains one step more; ours ends",
    "the order of batch_rebalance": "Python draws it from 42, ours from data_seed or seed, which is 42 unless set",
    "use_seedable_sampler = false": "Python's order then depends on all that was drawn before; the case is not compared",
    "the order of group_by_length": "Python draws it from the global generator, ours from seed and epoch; the case is not compared",
    "order of predict() with group_by_length": "Python gives predictions in the order of lengths, ours in the order of the rows",
}
SPEEDS = ("_runtime", "_per_second", "_preparation_time")

# ---- Both sides ---------------------------------------------------------------------------------

class Workplace:
    """The folder of models, rows and runs, and the programs."""

    def __init__(self, options, folder):
        self.probe, self.launcher, self.folder, self.seed = options.probe, options.launcher, folder, options.seed
        self.tokenizer = os.path.join(folder, "tokenizer")
        make_tokenizer(self.tokenizer)
        self.count = 0

    def model(self, kind):
        folder = os.path.join(self.folder, "models", kind)
        if not os.path.isdir(folder):
            make_model(kind, folder)
        return folder

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def spec(self, case):
        self.count += 1
        draw = random.Random(f"{self.seed} {case.name}")
        task, collator, _, _ = KINDS[case.kind]

        def rows(name, count):
            made = make_rows(draw, case.kind, count)
            for number, row in enumerate(made):
                if case.extras.get("lengths"):
                    row["input_ids"] = (row["input_ids"] * 8)[:8]
                    row["attention_mask"] = [1] * 8
                if case.extras.get("extra_columns"):
                    row |= {"text": f"row {number}", "weight": number / 7, "idx": number}
            return self.write(f"{self.count}-{name}.json", made)
        spec = {"model": self.model(case.kind), "task": task, "collator": case.extras.get("collator", collator), "arguments": dict(case.arguments),
                "data": {"train": rows("train", case.rows), "eval": rows("eval", case.eval_rows)}}
        if case.extras.get("named"):
            spec["data"]["eval"] = {"dev": spec["data"]["eval"], "other": rows("other", 7)}
        if case.extras.get("tokenizer", True):
            spec["tokenizer"] = self.tokenizer
        if case.extras.get("predict"):
            spec["predict"] = rows("predict", 13)
        for key in ("metrics", "function_metrics", "compute_loss", "callbacks", "evaluate", "streams", "train"):
            if key in case.extras:
                spec[key] = case.extras[key]
        return spec

    def run_ours(self, spec, processes):
        path = self.write(f"{self.count}-ours.json", spec)
        command = [self.probe, path]
        if processes > 1:
            command = [self.launcher, "launch", "--cpu", "--num_processes", str(processes)] + command
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"})
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        answer = json.loads(lines[-1]) if lines else {"error": f"exit {done.returncode}"}
        if done.returncode != 0:
            answer.setdefault("error", f"exit {done.returncode}")
            answer["stderr"] = done.stderr[-3000:]
        return answer

    def run_python(self, spec, processes):
        if processes == 1:
            return run_python_here(spec)
        spec = json.loads(json.dumps(spec))
        spec["arguments"]["ddp_backend"] = "gloo"
        spec["answer"] = os.path.join(self.folder, f"{self.count}-answer.json")
        path = self.write(f"{self.count}-theirs.json", spec)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = []
        for rank in range(processes):
            environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "RANK": str(rank),
                                        "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
            ranks.append(subprocess.Popen([sys.executable, "-W", "ignore", __file__, "--worker", path], env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise RuntimeError("\n".join(outputs)[-3000:])
        return read_json(spec["answer"])


def worker(path):
    spec = read_json(path)
    answer = run_python_here(spec)
    if os.environ["RANK"] == "0":
        with open(spec["answer"], "w", encoding="utf-8") as file:
            json.dump(answer, file, default=str)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads of a rank whose peer has ended end it badly.


# ---- Comparison ---------------------------------------------------------------------------------

def is_speed(name):
    return name.endswith(SPEEDS)


def is_close(ours, theirs, tolerance):
    if ours in ("nan", "-nan", "inf", "-inf"):
        ours = abs(float(ours)) if "nan" in ours else float(ours)
    if isinstance(theirs, (int, float)) and isinstance(ours, (int, float)) and not isinstance(theirs, bool):
        if math.isnan(theirs) or math.isinf(theirs):
            return str(float(ours)) == str(float(theirs))
        return abs(ours - theirs) <= tolerance * max(abs(theirs), 1e-2 if tolerance < 1e-3 else 1)
    return ours == theirs


class Differences(list):
    """Sentences, at most a few of a kind."""

    def __init__(self, case):
        super().__init__()
        self.tolerance = case.tolerance
        logs_all = case.arguments["logging_steps"] == 1 and case.arguments.get("logging_strategy", "steps") == "steps"
        self.skipped = set() if case.processes == 1 or logs_all else {"train_loss", "training_loss"}

    def values(self, where, ours, theirs, exact=False):
        """Maps of numbers."""
        ours, theirs = dict(ours), dict(theirs)
        for name in [n for n in theirs if n.endswith("_model_preparation_time")]:
            del theirs[name]
        if set(ours) != set(theirs):
            self.append(f"{where}: names {sorted(set(ours) - set(theirs))} only in ours, {sorted(set(theirs) - set(ours))} only in Python's")
        bad = [f"{name} {ours[name]!r}, Python's {theirs[name]!r}" for name in theirs
               if name in ours and name not in self.skipped and not is_speed(name) and not is_close(ours[name], theirs[name], 0 if exact else self.tolerance)]
        if bad:
            self.append(f"{where}: " + "; ".join(bad[:6]))

    def same(self, where, ours, theirs):
        if ours != theirs:
            self.append(f"{where}: {str(ours)[:500]}, Python's {str(theirs)[:500]}")

    def history(self, where, ours, theirs):
        kinds = [[(entry["step"], sorted(k for k in entry if not k.endswith("_preparation_time"))) for entry in history] for history in (ours, theirs)]
        if kinds[0] != kinds[1]:
            at = next((i for i, (a, b) in enumerate(zip(*kinds)) if a != b), min(map(len, kinds)))
            self.append(f"{where}: entry {at} of {len(ours)} and {len(theirs)}: {ours[at:at + 1]}, Python's {theirs[at:at + 1]}")
            return
        for i, (a, b) in enumerate(zip(ours, theirs)):
            self.values(f"{where}, entry {i} (step {b['step']})", a, b)
            if len(self) > 8:
                return

    def arrays(self, where, ours, theirs, tolerance, lengths=(), is_shifted=False):
        if ours["shape"] != theirs["shape"]:
            self.append(f"{where}: shape {ours['shape']}, Python's {theirs['shape']}")
            return
        a, b = (np.array(side["values"]).reshape(side["shape"]) for side in (ours, theirs))
        if lengths and b.ndim > 1 and b.shape[1] == max(lengths):
            kept = np.arange(b.shape[1])[None] < np.array(lengths)[:, None]
            a, b = a[kept], b[kept]
        if is_shifted and a.size:
            a = a - (a - b).mean()
        if a.size and np.abs(a - b).max() > tolerance * max(1.0, np.abs(b).max()):
            self.append(f"{where}: differs by {np.abs(a - b).max():.3g} where the greatest is {np.abs(b).max():.3g}")


# Gradients of these are 0 but for rounding, which optimizers that divide by their size make large.
WITHOUT_GRADIENT = ("key.bias", "k_lin.bias", "qa_outputs.bias")


def has_gradient(name, names):
    """The loss of an answer stays if all tokens get the same in addition: the biases behind the last layer do nothing."""
    answers = "qa_outputs.bias" in names and name.endswith("layer.1.output.LayerNorm.bias")
    return not answers and not name.endswith(WITHOUT_GRADIENT)


def weight_difference(ours, theirs):
    """The greatest difference, as a share of the greatest weight; and the tensor."""
    ours, theirs = load_file(ours), load_file(theirs)
    if set(ours) != set(theirs):
        return math.inf, f"names {sorted(set(ours) ^ set(theirs))[:4]}"
    largest = max(value.float().abs().max().item() for value in theirs.values())
    found = []
    for name, value in theirs.items():
        if not has_gradient(name, theirs):
            continue
        difference = (ours[name].float() - value.float()).abs()
        if name.endswith("c_attn.bias"):
            difference = torch.cat([difference[:len(value) // 3], difference[2 * len(value) // 3:]])
        found.append((difference.max().item() / largest, name))
    return max(found, key=lambda pair: math.inf if math.isnan(pair[0]) else pair[0])


def checkpoints_of(folder):
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted((name for name in names if name.startswith("checkpoint-")), key=lambda name: int(name.split("-")[1]))


def without_first_loss(history, step):
    """Python forgets the losses before a checkpoint that no log had: its first mean behind `step` is one over fewer steps."""
    next((entry for entry in history if entry["step"] > step and "loss" in entry), {}).pop("loss", None)


def compare_states(differences, where, ours_folder, theirs_folder, going_on_from=None):
    ours, theirs = (read_json(os.path.join(folder, "trainer_state.json")) for folder in (ours_folder, theirs_folder))
    for state in (ours, theirs) if going_on_from is not None else ():
        without_first_loss(state["log_history"], going_on_from)
    trainer_callback.TrainerState.load_from_json(os.path.join(ours_folder, "trainer_state.json"))
    differences.history(where + " log_history", ours.pop("log_history"), theirs.pop("log_history"))
    callbacks = [state.pop("stateful_callbacks") for state in (ours, theirs)]
    if where.endswith("the run"):  # Python keeps those of the last checkpoint, ours are of the moment.
        callbacks = [sorted(states) for states in callbacks]
    differences.same(where + " stateful_callbacks", *callbacks)
    for state in (ours, theirs):
        if state["best_model_checkpoint"]:
            state["best_model_checkpoint"] = os.path.basename(state["best_model_checkpoint"])
    differences.values(where, ours, theirs)


def compare_folders(differences, case, ours, theirs, going_on_from=None):
    """Of two output_dirs: the checkpoints, their states and weights."""
    differences.same("checkpoints", checkpoints_of(ours), checkpoints_of(theirs))
    worst = 0.0
    for name in [name for name in checkpoints_of(theirs) if name in checkpoints_of(ours)] + [""]:
        a, b = os.path.join(ours, name), os.path.join(theirs, name)
        if os.path.exists(os.path.join(b, "trainer_state.json")):
            compare_states(differences, f"trainer_state.json of {name or 'the run'}", a, b, going_on_from)
        difference, tensor = weight_difference(os.path.join(a, "model.safetensors"), os.path.join(b, "model.safetensors"))
        worst = max(worst, difference)
        if difference > case.weights:
            differences.append(f"weights of {name or 'the run'}: {tensor} differs by {difference:.3g} of the greatest")
        opens_in_python(differences, case, a, name)
    results = [os.path.join(folder, "all_results.json") for folder in (ours, theirs)]
    if os.path.exists(results[1]):
        differences.values("all_results.json", read_json(results[0]), read_json(results[1]))
    return worst


def opens_in_python(differences, case, folder, name):
    try:
        transformers.AutoConfig.from_pretrained(folder)
        getattr(transformers, AUTO_MODELS[KINDS[case.kind][0]]).from_pretrained(folder)
        if case.extras.get("tokenizer", True):
            transformers.AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # Whatever it is, the folder does not open.
        differences.append(f"Python does not open {name or 'the run'}: {error}")


def compare_answers(differences, case, ours, theirs, lengths=()):
    if "error" in ours:
        differences.append(f"ours failed: {ours['error'][:1500]} {ours.get('stderr', '')}")
        return
    for name in ("global_step", "training_loss"):
        differences.values("train()", {name: ours.get(name)}, {name: theirs.get(name)})
    for name in ("metrics", "evaluation"):
        if name in theirs:
            differences.values(name, ours[name], theirs[name])
    if ours["events"] != theirs["events"]:
        at = next((i for i, (a, b) in enumerate(zip(ours["events"], theirs["events"])) if list(a) != list(b)), -1)
        differences.append(f"events from {at} on: {ours['events'][at:at + 6]}, Python's {theirs['events'][at:at + 6]}")
    if "predictions" in theirs:
        a, b = ours["predictions"], theirs["predictions"]
        differences.values("metrics of predict()", a["metrics"], b["metrics"])
        differences.same("outputs of predict()", len(a["outputs"]), len(b["outputs"]))
        for i, (x, y) in enumerate(zip(a["outputs"], b["outputs"])):
            differences.arrays(f"output {i} of predict()", x, y, max(case.weights, 2e-5), lengths, case.kind == "answers")
        differences.arrays("labels of predict()", a["labels"], b["labels"], 0)


def go_on(place, case, spec, folders, step):
    """Ours and Python's from `step` of ours and of Python's, against Python's run that was not interrupted or went on from there."""
    ours, theirs = folders
    name = f"checkpoint-{step}"
    found, worst = [], 0.0
    kept = os.path.join(place.folder, f"{place.count}-python-{step}")
    copy_run(theirs, kept, step)
    answer = place.run_python(dict(spec, arguments=spec["arguments"] | {"output_dir": kept}, resume=os.path.join(kept, name)), case.processes)
    for side, source in (("ours", ours), ("Python's", theirs)):
        folder = os.path.join(place.folder, f"{place.count}-from-{side[:4]}-{step}")
        copy_run(source, folder, step)
        differences = Differences(case)
        again = place.run_ours(dict(spec, arguments=spec["arguments"] | {"output_dir": folder}, resume=os.path.join(folder, name)), case.processes)
        lengths = [len(row["input_ids"]) for row in read_json(spec["predict"])] if "predict" in spec else []
        made_up = take_made_up(again)
        evaluates = case.arguments.get("eval_on_start")  # Python does that also where a training goes on.
        as_python = not case.extras.get("streams") and made_up <= {"on_epoch_end"} and not evaluates
        if "error" in again or as_python:
            compare_answers(differences, case, again, answer, lengths)
        if "error" not in again:
            if as_python:
                worst = max(worst, compare_folders(differences, case, folder, kept, step if side == "ours" else None))
            ends_as_uninterrupted(differences, case, folder, theirs, (step, side))
        found += [f"from {side} {name}: {difference}" for difference in differences]
    return found, worst


def take_made_up(answer):
    """Takes out what ours makes up before the first epoch: the end of an epoch whose last step the checkpoint is of. Python leaves that out."""
    events = answer.get("events", [])
    names = [name for name, _ in events]
    if "on_train_begin" not in names or "on_epoch_begin" not in names:
        return set()
    begin, end = names.index("on_train_begin") + 1, names.index("on_epoch_begin")
    del events[begin:end]
    return set(names[begin:end])


def copy_run(source, target, step):
    """The run as it was when it stopped behind `step`. What it says of its best checkpoint stays: that one is still there."""
    os.makedirs(target)
    for name in checkpoints_of(source):
        if int(name.split("-")[1]) <= step:
            shutil.copytree(os.path.join(source, name), os.path.join(target, name))


def ends_as_uninterrupted(differences, case, ours, uninterrupted, place):
    """A run that went on from a step logs what one that did not stop logs, and ends with its weights. `place`: the step, and whose checkpoint it is."""
    step, side = place
    if case.arguments.get("ignore_data_skip"):
        return
    histories = [[entry for entry in read_json(os.path.join(folder, "trainer_state.json"))["log_history"][:-1] if entry["step"] > step]
                 for folder in (ours, uninterrupted)]
    for history in histories if side != "ours" else ():
        without_first_loss(history, step)
    differences.history("log_history of the run that did not stop", *histories)
    difference, tensor = weight_difference(os.path.join(ours, "model.safetensors"), os.path.join(uninterrupted, "model.safetensors"))
    if difference > 3 * case.weights:
        differences.append(f"weights of the run that did not stop: {tensor} differs by {difference:.3g} of the greatest")


def run_case(place, case):
    spec = place.spec(case)
    folders = [os.path.join(place.folder, f"{place.count}-{side}") for side in ("ours", "theirs")]
    differences = Differences(case)
    ours = place.run_ours(dict(spec, arguments=spec["arguments"] | {"output_dir": folders[0]}), case.processes)
    theirs = place.run_python(dict(spec, arguments=spec["arguments"] | {"output_dir": folders[1]}), case.processes)
    lengths = [len(row["input_ids"]) for row in read_json(spec["predict"])] if "predict" in spec else []
    compare_answers(differences, case, ours, theirs, lengths)
    worst = compare_folders(differences, case, *folders) if "error" not in ours else math.inf
    if "error" not in ours and "resume_from" in case.extras:
        all_steps = [int(name.split("-")[1]) for name in checkpoints_of(folders[1])]
        all_steps = [step for step in all_steps if step < theirs["global_step"]]
        for step in case.extras["resume_from"]:
            chosen = all_steps[len(all_steps) // 2] if step == "*" and all_steps else step
            if chosen in all_steps and f"checkpoint-{chosen}" in checkpoints_of(folders[0]):
                more, weights = go_on(place, case, spec, folders, chosen)
                differences += more
                worst = max(worst, weights)
    return differences, worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe", nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--launcher")
    parser.add_argument("--keep", help="an empty folder for all that is made")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if MISSING:
        print(f"skipped: the originals are missing: {MISSING}")
        return 77
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if options.worker:
        worker(options.worker)
        return 0
    options.launcher = options.launcher or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(options.probe))), "bin", "accelerate")
    cases = [case for case in table() if case.name.startswith("*") or not options.quick]
    draw = random.Random(options.seed)
    cases += [random_case(draw, number) for number in range(0 if options.quick else options.rounds)]
    cases = [case for case in cases if options.only in case.name]
    lacking = sorted({case.extras["needs"] for case in cases if "needs" in case.extras and not importlib.util.find_spec(case.extras["needs"])})
    cases = [case for case in cases if case.extras.get("needs") not in lacking]
    faults, worst_of_all = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        place = Workplace(options, options.keep or folder)
        for case in cases:
            begin = time.time()
            differences, worst = run_case(place, case)
            if case.tolerance <= 1e-4:
                worst_of_all = max(worst_of_all, worst)
            faults += bool(differences)
            if differences or options.only:
                print(f"{case.name} [{case.kind}], {time.time() - begin:.1f} s: {len(differences)} differences, weights {worst:.2g}")
            for difference in differences[:12]:
                print(f"  {difference}")
            sys.stdout.flush()
    print(f"{len(cases)} trainings compared, {faults} differ; weights of the others to {worst_of_all:.2g} of the greatest; seed {options.seed}"
          + (f"; not compared, for want of {' and '.join(lacking)}: the optimizers of these packages" if lacking else ""))
    return 1 if faults or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
