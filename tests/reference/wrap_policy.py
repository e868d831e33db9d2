#!/usr/bin/env python3
"""Writes wrap_policy.json: into which units PyTorch's FSDP 1 and Accelerate's FSDP 2 cut models.

A model is written as its modules (name, class, identity) and parameters (name, identity, elements), both as often as
they have names. A row: a model, the settings, and `units`, from the name of a wrapped module ("" is the root) to the
names of its parameters; "tail" are the modules that version 2 never frees after forward, as the root; or `error`.
Version 1 runs PyTorch's `_auto_wrap`, version 2 Accelerate's `fsdp2_prepare_model`, each with a recorder in the place
of the wrapper.

  python tests/reference/wrap_policy.py [output.json]
"""
import functools
import json
import pathlib
import re
import sys
import types
import warnings
from unittest import mock

import torch
from accelerate.utils import FullyShardedDataParallelPlugin, fsdp_utils
from torch import nn
from torch.distributed import fsdp
from torch.distributed.fsdp._wrap_utils import _auto_wrap

HERE = pathlib.Path(__file__).resolve()


# --- models ----------------------------------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width)
        self.down = nn.Linear(2 * width, width)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.heads = nn.MultiheadAttention(width, 2)
        self.gate = nn.Linear(width, width)


class Transformer(nn.Module):
    """Embeddings, blocks in a list, a final norm, a head that may be tied to the embedding."""

    def __init__(self, tied):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.position = nn.Embedding(16, 8)
        self.layers = nn.ModuleList(Block(8) for _ in range(3))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 50, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.head


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(20, 4)
        self.position = nn.Embedding(8, 4)
        self.norm = nn.LayerNorm(4)


class Encoder(nn.Module):
    """The input embedding below a module of its own."""

    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.layers = nn.ModuleList(Block(4) for _ in range(2))

    def get_input_embeddings(self):
        return self.embeddings.word


class Nested(nn.Module):
    """Blocks inside blocks, a dictionary, attention, a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))
        self.outer = nn.ModuleDict({"a": Block(6), "b": nn.Sequential(Block(4), nn.ReLU(), nn.Linear(4, 4))})
        self.outer["a"].inner = Block(3)
        self.attention = Attention(8)
        self.tail = nn.Sequential(nn.Dropout(), nn.Linear(8, 3))


class Shared(nn.Module):
    """One weight in two blocks, and one in two modules of a block."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(Block(4), nn.Linear(4, 8))
        self.second = Block(4)
        self.first[1].weight = self.second.up.weight
        self.third = Block(2)
        self.third.copy = nn.Linear(2, 4)
        self.third.copy.weight = self.third.up.weight


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)) for _ in range(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.BatchNorm1d(4))


MODELS = {"transformer": functools.partial(Transformer, False), "tied": functools.partial(Transformer, True),
          "encoder": Encoder, "nested": Nested, "shared": Shared, "convolutions": Convolutions}

# --- rows ------------------------------------------------------------------------------------------------------------

# model, classes, expressions of ignored modules
BY_CLASS = [
    ("transformer", ["Block"], []),
    ("transformer", ["Block", "Embedding"], []),
    ("transformer", ["Linear", "LayerNorm"], []),
    ("transformer", ["Blocks"], []),
    ("transformer", ["Transformer"], []),
    ("transformer", ["Block"], ["embed"]),
    ("transformer", ["Block"], [r"layers\.[01]", "head"]),
    ("transformer", ["Block"], [r"layers\.1\.up", ".*norm"]),
    ("transformer", ["Block"], ["layer"]),
    ("tied", ["Block"], []),
    ("tied", ["Block"], ["head"]),
    ("encoder", ["Block"], []),
    ("encoder", ["Block", "Embeddings"], []),
    ("encoder", ["Block"], [r"embeddings"]),
    ("nested", ["Block"], []),
    ("nested", ["Block", "Sequential"], []),
    ("nested", ["MultiheadAttention", "Linear"], []),
    ("nested", ["ModuleDict"], []),
    ("nested", ["Block"], [r"outer\.a"]),
    ("nested", ["ReLU"], []),
    ("convolutions", ["Sequential"], []),
    ("convolutions", ["Conv2d"], [r"blocks\.0"]),
]
# model, least sizes, expressions of ignored modules
BY_SIZE = [
    ("transformer", [1, 8, 16, 64, 136, 137, 144, 145, 296, 297, 400, 401, 888, 889, 10**6], []),
    ("transformer", [136, 296], [r"layers\.1", "embed"]),
    ("tied", [8, 136, 296], []),
    ("nested", [1, 16, 20, 32, 64, 78, 79, 100, 192, 200, 288, 360, 361, 500, 900], []),
    ("nested", [16, 64], [r"attention\.heads", r"outer\.a\.inner"]),
    ("convolutions", [1, 16, 224, 225, 500, 1000], []),
]


def cases():
    """model, settings"""
    plain = {"ignored": [], "mixed": False}
    for version in (1, 2):
        for model in MODELS:
            yield model, {**plain, "version": version, "policy": "NO_WRAP"}
        for model, classes, ignored in BY_CLASS:
            yield model, {**plain, "version": version, "policy": "TRANSFORMER_BASED_WRAP", "classes": classes,
                          "ignored": ignored}
        for model, sizes, ignored in BY_SIZE:
            for least in [0] * (not ignored) + sizes:
                yield model, {**plain, "version": version, "policy": "SIZE_BASED_WRAP", "min": least,
                              "ignored": ignored}
    mixed = {**plain, "version": 1, "mixed": True}
    yield "convolutions", {**mixed, "policy": "TRANSFORMER_BASED_WRAP", "classes": ["Conv2d"]}
    yield "convolutions", {**mixed, "policy": "TRANSFORMER_BASED_WRAP", "classes": ["Sequential"],
                           "ignored": [r"blocks\.1"]}
    for model in ("convolutions", "nested"):
        for least in (16, 64, 225, 1000):
            yield model, {**mixed, "policy": "SIZE_BASED_WRAP", "min": least}


# --- what the originals wrap -----------------------------------------------------------------------------------------

def ignored_of(model, expressions):
    chosen = [m for n, m in model.named_modules() if any(re.fullmatch(e, n) for e in expressions)]
    modules = {below for module in chosen for below in module.modules()}
    return modules, {p for module in modules for p in module.parameters()}


class Recorder(nn.Module):
    """In the place of FullyShardedDataParallel: remembers what it wraps, in the order of wrapping."""
    wrapped = []

    def __init__(self, module, **kwargs):
        super().__init__()
        self.module = module
        Recorder.wrapped.append(module)


def plugin_of(model, settings):
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=settings["version"], auto_wrap_policy=settings["policy"],
        transformer_cls_names_to_wrap=settings.get("classes"), min_num_params=settings.get("min"),
        ignored_modules="|".join(settings["ignored"]) or None)
    plugin.set_auto_wrap_policy(model)
    return plugin


def wrapped_by_first_version(model, settings):
    plugin = plugin_of(model, settings)
    modules, parameters = ignored_of(model, settings["ignored"])
    mixed = fsdp.MixedPrecision(param_dtype=torch.bfloat16) if settings["mixed"] else None
    Recorder.wrapped = []
    if plugin.auto_wrap_policy is not None:
        _auto_wrap(model, plugin.auto_wrap_policy, modules, parameters, {"mixed_precision": mixed}, Recorder)
    return [(None, [module]) for module in Recorder.wrapped]


def wrapped_by_second_version(model, settings):
    calls = []

    def fully_shard(modules, **kwargs):
        tail = kwargs.get("reshard_after_forward") is False
        calls.append(("tail" if tail else None, modules if isinstance(modules, list) else [modules]))

    accelerator = types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin_of(model, settings)), torch_device_mesh=None,
        mixed_precision="no", is_main_process=True, device=torch.device("cpu"))
    # PyTorch makes a module that is wrapped an FSDPModule, which is asked for before it is wrapped again.
    wrapped = type("Wrapped", (type,), {
        "__instancecheck__": lambda self, module: any(module is one for _, call in calls for one in call)})
    with mock.patch.object(fsdp, "fully_shard", fully_shard), \
            mock.patch.object(fsdp, "FSDPModule", wrapped("FSDPModule", (), {})):
        fsdp_utils.fsdp2_prepare_model(accelerator, model)
    return [call for call in calls if model not in call[1]]


def units_of(groups, names, model, ignored):
    """Wrapped first takes first, as both versions do: each manages what is below it and not managed yet."""
    taken, units = set(ignored), {}
    for label, group in [*groups, ("", [model])]:
        own = [p for module in group for p in module.parameters() if p not in taken]
        taken.update(own)
        if own:
            units[names[group[0]] if label is None else label] = own
    return units


def identities(things):
    known = {}
    return [known.setdefault(id(thing), len(known)) for thing in things]


def class_name(module):
    """By which C++ calls it: Python's attention has a subclass of Linear inside, which counts as one."""
    return "Linear" if isinstance(module, nn.Linear) else type(module).__name__


def description(model):
    modules = list(model.named_modules(remove_duplicate=False))
    parameters = list(model.named_parameters(remove_duplicate=False))
    return {"modules": [[name, class_name(module), identity] for (name, module), identity
                        in zip(modules, identities(m for _, m in modules))],
            "parameters": [[name, identity, parameter.numel()] for (name, parameter), identity
                           in zip(parameters, identities(p for _, p in parameters))]}


def row(name, settings):
    model = MODELS[name]()
    names = {module: path for path, module in model.named_modules()}
    parameters = {parameter: path for path, parameter in model.named_parameters()}
    _, ignored = ignored_of(model, settings["ignored"])
    wrap = wrapped_by_first_version if settings["version"] == 1 else wrapped_by_second_version
    result = {"model": name, **settings}
    try:
        units = units_of(wrap(model, settings), names, model, ignored)
        result["units"] = {unit: [path for p, path in parameters.items() if any(p is q for q in own)]
                           for unit, own in units.items()}
    except ValueError as error:
        result["error"] = str(error)
    return result


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.with_suffix(".json")
    warnings.simplefilter("ignore")
    models = ",\n".join(f'"{name}": {json.dumps(description(make()))}' for name, make in MODELS.items())
    rows = [row(*case) for case in cases()]
    lines = ",\n".join(json.dumps(entry) for entry in rows)
    output.write_text(f'{{"models": {{\n{models}\n}}, "rows": [\n{lines}\n]}}\n')
    print(f"{len(rows)} rows, {sum('error' in entry for entry in rows)} errors")


if __name__ == "__main__":
    main()
