"""The network, the images and the loop of examples/cv in Python: the same layers, batches and optimizer."""
import gzip
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH_SIZE = 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 7 * 7, 128)
        self.scores = nn.Linear(128, 10)

    def forward(self, images):
        x = (images.to(torch.float32) / 255 - 0.2860) / 0.3530
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.hidden(x.flatten(1)))
        return self.scores(x)


def read_idx(name, header_bytes):
    """The values of an IDX file, uint8. They are copied once, because PyTorch wants to own what it may write to."""
    content = gzip.decompress((FOLDER / name).read_bytes())
    return torch.from_numpy(numpy.frombuffer(content, numpy.uint8, offset=header_bytes).copy())


def train_loader():
    """Batches: images uint8 (n, 1, 28, 28), labels int64 (n,)."""
    images = read_idx("train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    labels = read_idx("train-labels-idx1-ubyte.gz", 8).long()
    return DataLoader(TensorDataset(images, labels), batch_size=BATCH_SIZE, shuffle=True)


def endless(loader):
    while True:
        yield from loader
