#!/usr/bin/env python3
"""Writes tensorboard_events.json: what torch.utils.tensorboard puts into event files, record by record.

usage: tensorboard_events.py [SEED] [FOLDER]

Each event row has the arguments and the framed record as hexadecimal text; each histogram row has values and
the fields that torch counts for them.
"""
import json
import pathlib
import random
import struct
import sys

import numpy as np
import torch
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from torch.utils.tensorboard import summary


def framed(payload):
    header = struct.pack("<Q", len(payload))
    return header + struct.pack("<I", masked_crc32c(header)) + payload + struct.pack("<I", masked_crc32c(payload))


def record(stamp, value):
    event = event_pb2.Event(summary=value, wall_time=stamp[0], step=stamp[1])
    return framed(event.SerializeToString(deterministic=True)).hex()


def default_bins():
    """As SummaryWriter makes them in its constructor."""
    positive, v = [], 1e-12
    while v < 1e20:
        positive.append(v)
        v *= 1.1
    return [-v for v in reversed(positive)] + [0] + positive


def events(rng):
    stamps = [(0.0, 0), (1763735645.123456, 1), (1.5, 2**40), (2.0, -1), (3.0, 127), (4.0, 128)]
    for stamp in stamps:
        value = rng.choice([0.0, 1.0, -2.5, 1e30, 1e-30, rng.random()])
        yield {"kind": "scalar", "stamp": stamp, "tag": "train/loss", "value": value,
               "hex": record(stamp, summary.scalar("train/loss", value))}
    for text in ["", "short", "grüße, 世界", "x" * 300, "two\nlines"]:
        yield {"kind": "text", "stamp": stamps[1], "tag": "note", "text": text,
               "hex": record(stamps[1], summary.text("note", text))}
    for size in (0, 1, 127, 128, 2000):
        png = rng.randbytes(size)
        value = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="i", image=summary_pb2.Summary.Image(
            height=28, width=200, colorspace=3, encoded_image_string=png))])
        yield {"kind": "image", "stamp": stamps[2], "tag": "i", "png": png.hex(), "hex": record(stamps[2], value)}
    for hparams in ({"lr": 0.1}, {"batch": 64, "name": "adamw"}, {"a": 0, "b": "", "c": -1.5, "d": 1e300}):
        parts = summary.hparams(hparams, {})
        yield {"kind": "hparams", "stamp": stamps[1], "hparams": hparams,
               "hex": "".join(record(stamps[1], part) for part in parts)}


def histograms(rng):
    numpy = np.random.default_rng(rng.randrange(2**31))
    samples = {
        "one": [1.0], "zero": [0.0], "zeros": [0.0] * 5, "negative": [-3.0, -1e-13, -2.0], "edges": default_bins()[700:720],
        "tiny": [1e-13, -1e-13, 1e-12], "normal": numpy.normal(size=500).tolist(),
        "wide": (numpy.normal(size=300) * 10.0 ** numpy.integers(-14, 19, 300)).tolist(),
        "beyond": [1e25, 2.0, -1e25], "halves": (numpy.integers(-40, 40, 200) / 2).tolist(),
    }
    for name, values in samples.items():
        proto = summary.make_histogram(np.array(values, dtype=float), default_bins())
        yield {"name": name, "values": values, "min": proto.min, "max": proto.max, "num": proto.num, "sum": proto.sum,
               "sum_squares": proto.sum_squares, "bucket_limit": list(proto.bucket_limit), "bucket": list(proto.bucket),
               "hex": record((5.0, 3), summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="w", histo=proto)]))}


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent
    data = {"made_with": f"torch {torch.__version__.partition('+')[0]}", "events": list(events(rng)),
            "histograms": list(histograms(rng))}
    text = json.dumps(data, ensure_ascii=True)
    (folder / "tensorboard_events.json").write_text(text.replace('{"kind"', '\n{"kind"').replace('{"name": ', '\n{"name": ') + "\n")


if __name__ == "__main__":
    main()
