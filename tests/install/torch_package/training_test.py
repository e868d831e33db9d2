"""Training over the backend `accelerate` gives the bits of training over Gloo."""
import hashlib
import os
import subprocess
import sys
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from ranks import on_ranks, same_bits


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))


def train(model, optimizer, steps=4):
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        inputs, targets = torch.randn(16, 64, generator=generator), torch.randn(16, 8, generator=generator)
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def replicated(**options):
    net = network()
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.1, **options)
    train(model, torch.optim.AdamW(net.parameters(), lr=1e-2))
    return [tensor.numpy() for tensor in net.state_dict().values()]


def sharded(from_group=False):
    net = network()
    net[1] = nn.LayerNorm(256)
    for layer in (net[0], net[3], net):
        fully_shard(layer)
    for module in (net[0], net[3], net) if from_group else ():
        module.set_allocate_memory_from_process_group_for_comm(True)
    train(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    return [tensor.full_tensor().numpy() for tensor in net.state_dict().values()]


def with_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    net = network()
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    train(model, optimizer)
    mean = accelerator.gather_for_metrics(torch.tensor([accelerator.process_index]))
    assert mean.tolist() == [0, 1]
    return net.state_dict()


class Training(unittest.TestCase):
    def compare(self, size, body):
        ours, theirs = on_ranks(size, body), on_ranks(size, body, backend="gloo")
        for mine, other in zip(ours, theirs, strict=True):
            for a, b in zip(mine, other, strict=True):
                self.assertTrue(same_bits(torch.from_numpy(a), torch.from_numpy(b)))

    def test_ddp_is_equal(self):
        for options in ({}, {"gradient_as_bucket_view": True}):
            with self.subTest(options):
                self.compare(2, lambda: replicated(**options))

    def test_fsdp2_is_equal(self):
        self.compare(2, sharded)
        self.assertEqual(len(on_ranks(3, sharded)), 3)

    def test_fsdp2_takes_memory_of_the_group(self):
        ours, theirs = on_ranks(2, lambda: sharded(from_group=True)), on_ranks(2, sharded)
        for a, b in zip(ours[0], theirs[0], strict=True):
            self.assertTrue(same_bits(torch.from_numpy(a), torch.from_numpy(b)))

    def test_accelerate_launch_trains_with_it(self):
        """With one variable, and nothing imported."""
        command = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--cpu", "--num_processes", "2", "--no_python",
                   sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
        said = subprocess.run(command, env=os.environ | {"ACCELERATE_CPP_TORCH": "1"}, text=True, capture_output=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(f"trained over accelerate to {on_ranks(2, with_accelerate_in_a_group, backend='gloo')[0]}", said.stdout)


def with_accelerate_in_a_group():
    names = {"RANK": dist.get_rank(), "LOCAL_RANK": dist.get_rank(), "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(value) for name, value in names.items()})
    return digest(with_accelerate().values())


def digest(tensors):
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


if "LOCAL_RANK" not in os.environ:
    import accelerate_cpp_torch  # noqa: F401

if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        weights = with_accelerate()
        if dist.get_rank() == 0:
            print(f"trained over {dist.get_backend()} to {digest(weights.values())}", flush=True)
        dist.destroy_process_group()
    else:
        unittest.main()
