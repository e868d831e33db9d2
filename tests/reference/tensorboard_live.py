#!/usr/bin/env python3
"""Reads what our tracker wrote with the real tensorboard, and compares it with torch's SummaryWriter.

usage: tensorboard_live.py FOLDER

FOLDER/ours/run holds what tests/watch/trackers/tensorboard_test.cpp logged; the same calls are made here into
FOLDER/theirs/run. Prints each difference and exits 1 when there is one.
"""
import io
import math
import pathlib
import sys

import numpy as np
import torch
import yaml
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from torch.utils.tensorboard import SummaryWriter

ROOT = pathlib.Path(sys.argv[1])
CONFIG = {"lr": 0.001, "batch_size": 32, "optimizer": "adamw"}
ALL = {kind: 0 for kind in ("scalars", "images", "histograms", "tensors", "compressedHistograms")}
differences = []


def check(what, ours, theirs):
    if ours != theirs:
        differences.append(f"{what}: ours {ours!r}, theirs {theirs!r}")


def write_theirs():
    """The calls of the test, as accelerate's TensorBoardTracker makes them."""
    writer = SummaryWriter(str(ROOT / "theirs" / "run"))
    writer.add_hparams(CONFIG, metric_dict={})
    for step in range(5):
        writer.add_scalar("train/loss", 1.0 / (step + 1), step)
        writer.add_scalar("epoch", step // 2, step)
        writer.add_text("note", f"step {step}: grüße", step)
        writer.add_scalars("accuracy", {"train": 0.1 * step, "test/a": 0.05 * step}, step)
    writer.add_scalar("odd", math.nan, 7)
    writer.add_scalar("odd", math.inf, 8)
    writer.add_scalar("no_step", 2.5)
    writer.add_histogram("weights", torch.arange(-50, 50).double() / 7, 3, bins="tensorflow")
    ramp = torch.arange(3 * 5 * 6 * 11).reshape(11, 3, 5, 6)
    writer.add_images("grid", (ramp % 256).to(torch.uint8), 4)
    writer.add_image("single", ramp[0].float() / 600, 4)
    writer.add_images("grey", (ramp[:2, :1] % 7).float() / 6, 4)
    writer.close()


def runs(name):
    root = ROOT / name / "run"
    folders = {path.parent for path in root.rglob("events.out.tfevents.*")}
    return {str(f.relative_to(root)): EventAccumulator(str(f), size_guidance=ALL).Reload() for f in folders}


def pixels(event):
    return event.width, event.height, np.array(Image.open(io.BytesIO(event.encoded_image_string))).tolist()


def histogram(event):
    value = event.histogram_value
    return [value.min, value.max, value.num, round(value.sum, 9), round(value.sum_squares, 9), value.bucket_limit,
            value.bucket]


def scalars(events):
    return [(e.step, "nan" if math.isnan(e.value) else e.value) for e in events]


def compare_run(name, ours, theirs):
    for kind in ("scalars", "images", "histograms", "tensors"):
        check(f"{name} {kind}", sorted(ours.Tags()[kind]), sorted(theirs.Tags()[kind]))
    for tag in theirs.Tags()["scalars"]:
        check(f"{name} {tag}", scalars(ours.Scalars(tag)), scalars(theirs.Scalars(tag)))
    for tag in theirs.Tags()["tensors"]:
        texts = [[(e.step, e.tensor_proto.string_val) for e in run.Tensors(tag)] for run in (ours, theirs)]
        check(f"{name} {tag}", *texts)
    for tag in theirs.Tags()["histograms"]:
        check(f"{name} {tag}", *([(e.step, histogram(e)) for e in run.Histograms(tag)] for run in (ours, theirs)))
    for tag in theirs.Tags()["images"]:
        check(f"{name} {tag}", *([(e.step, pixels(e)) for e in run.Images(tag)] for run in (ours, theirs)))
    plugins = ours.summary_metadata, theirs.summary_metadata
    check(f"{name} plugins", *({t: (m.plugin_data.plugin_name, m.plugin_data.content if t[0] != "_" else b"")
                                for t, m in p.items()} for p in plugins))


def hparams(run):
    """What the HParams plugin is told, of the one run that has it."""
    result = {}
    for tag, metadata in run.summary_metadata.items():
        if metadata.plugin_data.plugin_name == "hparams":
            data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
            result[tag] = str(data) if "start" not in tag else {
                k: (v.number_value, v.string_value) for k, v in data.session_start_info.hparams.items()}
    return result


def main():
    write_theirs()
    ours, theirs = runs("ours"), runs("theirs")
    session = [[name for name in side if name[0].isdigit()] for side in (ours, theirs)]
    check("sessions", [len(names) for names in session], [1, 1])
    folders = [sorted(n.replace("accuracy_test_a", "accuracy_test/a") for n in side if not n[0].isdigit())
               for side in (ours, theirs)]
    check("runs", *folders)
    for name in folders[1]:
        compare_run(name, ours[name.replace("test/a", "test_a")], theirs[name])
    check("hparams", *(hparams(side[names[0]]) for side, names in zip((ours, theirs), session)))
    check("hparams.yml", yaml.safe_load((ROOT / "ours/run" / session[0][0] / "hparams.yml").read_text()), CONFIG)
    compared = sum(len(run.Tags()[kind]) for run in theirs.values() for kind in ("scalars", "images", "histograms", "tensors"))
    check("tags compared", compared, 11)
    print("\n".join(differences) or "equal")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
