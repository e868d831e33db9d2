"""examples/cv as a user runs it: what it learns, on how many processes, and what it says to bad input.

usage: cv_test.py BUILD [unittest arguments]; BUILD is the build folder. Needs torch, numpy and safetensors.
"""
import gzip
import importlib.util
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else pathlib.Path("build/dev").resolve()
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
PLAIN, ACCELERATED = BUILD / "examples" / "cv_plain", BUILD / "examples" / "cv_accelerated"
LAUNCH = [BUILD / "bin" / "accelerate", "launch", "--num_processes", "2"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc_per_node", "2",
            "--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0"]
SHAPES = {"conv1.weight": (16, 1, 3, 3), "conv1.bias": (16,), "conv2.weight": (32, 16, 3, 3), "conv2.bias": (32,),
          "hidden.weight": (128, 1568), "hidden.bias": (128,), "scores.weight": (10, 128), "scores.bias": (10,)}


def run(*command, timeout=240):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)


def read_idx(name, offset):
    import numpy
    return numpy.frombuffer(gzip.open(DATA / name).read(), numpy.uint8, offset=offset)


def accuracy_in_python(weights):
    """What PyTorch makes of the weights: the same network, written with torch.nn.functional."""
    import torch
    from torch.nn import functional as f
    images = torch.from_numpy(read_idx("t10k-images-idx3-ubyte.gz", 16).copy()).view(-1, 1, 28, 28)
    labels = torch.from_numpy(read_idx("t10k-labels-idx1-ubyte.gz", 8).copy()).long()
    x = (images.float() / 255 - 0.2860) / 0.3530
    for conv in ("conv1", "conv2"):
        x = f.max_pool2d(f.relu(f.conv2d(x, weights[conv + ".weight"], weights[conv + ".bias"], padding=1)), 2)
    x = f.relu(f.linear(x.flatten(1), weights["hidden.weight"], weights["hidden.bias"]))
    return (f.linear(x, weights["scores.weight"], weights["scores.bias"]).argmax(1) == labels).double().mean().item()


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name in ("torch", "numpy", "safetensors"):
            if importlib.util.find_spec(name) is None:
                raise unittest.SkipTest(f"{sys.executable} has no {name}; scripts/setup makes a .venv with it")

    def check(self, launcher, epochs, at_least):
        from safetensors.torch import load_file
        with tempfile.TemporaryDirectory() as output:
            result = run(*launcher, ACCELERATED, "--epochs", epochs, "--output", output)
            self.assertEqual(result.returncode, 0, result.stderr)
            last = result.stdout.strip().splitlines()[-1]
            self.assertRegex(last, r"^test accuracy: 0\.\d{3}$")
            self.assertEqual(result.stdout.count("test accuracy"), 1, "one rank alone reports")
            said = float(last.split()[-1])
            self.assertGreaterEqual(said, at_least)
            weights = load_file(pathlib.Path(output, "model.safetensors"))
            self.assertEqual({name: tuple(w.shape) for name, w in weights.items()}, SHAPES)
            # Convolutions may round an image or two to another class on another number of threads.
            self.assertAlmostEqual(said, accuracy_in_python(weights), delta=0.001)
            return result

    def test_two_processes_of_our_launcher_learn(self):
        result = self.check(LAUNCH, epochs=2, at_least=0.88)
        self.assertIn("epoch 2", result.stderr)  # the progress bar

    def test_two_processes_of_torchrun_learn(self):
        self.check(TORCHRUN, epochs=1, at_least=0.80)


def idx(kind, dimensions, payload):
    return gzip.compress(struct.pack(f">I{len(dimensions)}I", 0x800 | kind, *dimensions) + payload)


class BadInput(unittest.TestCase):
    IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
    SOUND = {IMAGES: idx(3, (2, 28, 28), bytes(1568)), LABELS: idx(1, (2,), b"\1\2")}
    # What the folder holds instead, and what must be said.
    FILES = [
        ({IMAGES: None}, r"train-images-idx3-ubyte\.gz cannot be opened.*apt-get install dataset-fashion-mnist.*--data"),
        ({IMAGES: idx(1, (2, 28, 28), bytes(1568))}, r"begins with 2049, not with the 2051"),
        ({IMAGES: idx(3, (2, 28, 27), bytes(1512))}, r"side of 27, not 28"),
        ({IMAGES: idx(3, (2**32 - 1, 28, 28), b"")}, r"claims 4294967295 items; 1 to 100000 are allowed"),
        ({IMAGES: idx(3, (0, 28, 28), b"")}, r"claims 0 items"),
        ({IMAGES: idx(3, (2, 28, 28), bytes(1567))}, r"ends early or is damaged"),
        ({IMAGES: idx(3, (2, 28, 28), bytes(1569))}, r"longer than its header says"),
        ({IMAGES: SOUND[IMAGES][:-12]}, r"damaged"),
        ({IMAGES: b"\x1f\x8b"}, r"ends early or is damaged"),
        ({IMAGES: b""}, r"ends early or is damaged"),
        ({LABELS: idx(1, (3,), b"\1\2\3")}, r"images and labels in .* do not go together"),
        ({LABELS: idx(1, (2,), b"\1\12")}, r"images and labels in .* do not go together"),
    ]
    FLAGS = [
        (["--epoch", "1"], r"'--epoch' is not a flag\. Allowed: --data DIR"),
        (["--epochs"], r"'--epochs' needs a value"),
        (["--epochs", "2x"], r"'--epochs 2x': a whole number from 0 up"),
        (["--epochs", "-1"], r"'--epochs -1': a whole number from 0 up"),
    ]

    def refused(self, arguments, pattern):
        result = run(PLAIN, *arguments, timeout=20)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertTrue(result.stderr.startswith("cv_plain: "), result.stderr)
        self.assertRegex(result.stderr, re.compile(pattern, re.DOTALL))

    def test_names_what_is_wrong_with_a_file(self):
        for number, (files, pattern) in enumerate(self.FILES):
            with self.subTest(number=number), tempfile.TemporaryDirectory() as folder:
                for name, content in (self.SOUND | files).items():
                    if content is not None:
                        pathlib.Path(folder, name).write_bytes(content)
                self.refused(["--data", folder, "--output", folder], pattern)

    def test_names_what_is_wrong_with_a_flag(self):
        for arguments, pattern in self.FLAGS:
            with self.subTest(arguments=arguments):
                self.refused(arguments, pattern)


if __name__ == "__main__":
    unittest.main(verbosity=2)
