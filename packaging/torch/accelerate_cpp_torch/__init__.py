"""Collectives through shared memory for torch.distributed: the backend `accelerate` for CPU tensors.

`import accelerate_cpp_torch` registers the backend, then `torch.distributed.init_process_group("accelerate")` takes it. With
ACCELERATE_CPP_TORCH=1 in the environment, programs need not import it: whoever asks for Gloo gets it.
"""
import functools
import os

import torch
import torch.distributed as dist

from . import _built_for

if torch.__version__.split(".")[:2] != _built_for.TORCH.split("."):
    raise ImportError(
        f"accelerate_cpp_torch was compiled for torch {_built_for.TORCH} and found torch {torch.__version__}: "
        "install it again, with `pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps` and its file"
    )

from . import _engine

NAME = "accelerate"


def _create(options, _):
    # The ranks of a part of the world know each other already.
    world = dist.group.WORLD._get_backend(torch.device("cpu")) if options.global_ranks_in_group and _has_cpu(dist.group.WORLD) else None
    return _engine.make_backend(options.store, options.group_rank, options.group_size, options.timeout, world)


def _has_cpu(group):
    return any(device.type == "cpu" for device in group._device_types)


def _instead_of_gloo(backend):
    if backend is None:
        return backend if torch.accelerator.is_available() else NAME
    return NAME if backend == "gloo" else backend.replace("cpu:gloo", f"cpu:{NAME}")


def replace_gloo():
    """Lets init_process_group take the backend `accelerate` where it is asked for Gloo."""
    wish = os.environ.get("ACCELERATE_CPP_TORCH", "1")
    if wish != "1":
        raise ValueError(f"ACCELERATE_CPP_TORCH is '{wish}'; allowed are 1, to replace Gloo, and 0")
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(backend=None, *words, **options):
        return original(_instead_of_gloo(backend), *words, **options)

    dist.init_process_group = dist.distributed_c10d.init_process_group = init_process_group


dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
