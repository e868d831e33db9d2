#!/usr/bin/env python3
"""Writes fsdp_plugin.json: what Python Accelerate's FullyShardedDataParallelPlugin makes of environments and arguments.

A row: `environment`, `arguments` and the Accelerator's `mixed_precision`, and then either `fields` of the plugin or
`error`. Rows called "launch: …" have the environment that Python's launcher exports (launch_env_golden.json, which
launch_env_golden.py wrote before).

  python tests/reference/fsdp_plugin.py [output.json]
"""
import json
import logging
import os
import pathlib
import sys
import warnings
from unittest import mock

import torch
from accelerate.utils import FullyShardedDataParallelPlugin, dataclasses
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy

HERE = pathlib.Path(__file__).resolve()
logging.disable(logging.CRITICAL)
FLAGS = ["true", "True", "1", "yes", "on", "false", "FALSE", "0", "n", "perhaps"]
TRANSFORMER = {"FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP"}
SIZE = {"FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP"}

# variable after FSDP_, its values, other variables
VARIABLES = [
    ("VERSION", ["1", "2", "two"], {}),
    ("SHARDING_STRATEGY", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "no_shard",
                           "1", "2", "3", "4", "5", "0", "6", "FULL"], {}),
    ("RESHARD_AFTER_FORWARD", ["true", "False", "yes", "0", "FULL_SHARD", "shard_grad_op", "NO_SHARD", "maybe"], {}),
    ("OFFLOAD_PARAMS", FLAGS, {}),
    ("BACKWARD_PREFETCH", ["BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH", "backward_pre", "no_prefetch", "1", "2", "3",
                           "PRE"], {}),
    ("STATE_DICT_TYPE", ["FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT", "sharded_state_dict", "1", "2",
                         "3", "4", "SHARDED"], {}),
    ("AUTO_WRAP_POLICY", ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP", "size_based_wrap", "WRAP"], {}),
    ("TRANSFORMER_CLS_TO_WRAP", ["BertLayer", "BertLayer,GPT2Block", "BertLayer, GPT2Block"], TRANSFORMER),
    ("TRANSFORMER_CLS_TO_WRAP", ["BertLayer"], SIZE),
    ("MIN_NUM_PARAMS", ["0", "1", "100000000", "-5", "many"], SIZE),
    ("MIN_NUM_PARAMS", ["7"], TRANSFORMER),
    ("FORWARD_PREFETCH", FLAGS, {}),
    ("USE_ORIG_PARAMS", FLAGS, {}),
    ("SYNC_MODULE_STATES", FLAGS, {}),
    ("CPU_RAM_EFFICIENT_LOADING", FLAGS, {}),
    ("CPU_RAM_EFFICIENT_LOADING", ["true"], {"FSDP_SYNC_MODULE_STATES": "true"}),
    ("ACTIVATION_CHECKPOINTING", ["true", "false", "perhaps"], {}),
    ("ACTIVATION_CHECKPOINTING_OFFLOAD", ["true", "false", "perhaps"], {}),
    ("ACTIVATION_CHECKPOINTING_OFFLOAD", ["true"], {"FSDP_ACTIVATION_CHECKPOINTING": "true"}),
    ("IGNORED_MODULES", [r"encoder\.layer\.[01]", "head"], {}),
]

# arguments; each is tried with both versions, over an environment that says the opposite
ARGUMENTS = [
    *({"sharding_strategy": word} for word in dataclasses.FSDP_SHARDING_STRATEGY),
    *({"reshard_after_forward": word} for word in (True, False, "FULL_SHARD", "SHARD_GRAD_OP")),
    {"sharding_strategy": "FULL_SHARD", "reshard_after_forward": True},
    {"sharding_strategy": "NO_SHARD", "reshard_after_forward": "NO_SHARD"},
    {"sharding_strategy": "NO_SHARD", "reshard_after_forward": "FULL_SHARD"},
    *({"backward_prefetch": word} for word in dataclasses.FSDP_BACKWARD_PREFETCH),
    *({"mixed_precision_policy": word} for word in ("fp16", "bf16", "fp32", "fp8", "fp64")),
    {"mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": "float32", "buffer_dtype": "float16"}},
    {"mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": "float32", "output_dtype": "float16"}},
    {"mixed_precision_policy": {"param_dtype": "int64", "reduce_dtype": "float32", "buffer_dtype": "float16",
                                "output_dtype": "float16"}},
    *({"auto_wrap_policy": word} for word in dataclasses.FSDP_AUTO_WRAP_POLICY),
    {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_cls_names_to_wrap": ["Block", "Head"]},
    {"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 50},
    {"cpu_offload": True}, {"cpu_offload": False},
    {"ignored_modules": r"layers\.\d+"},
    *({"state_dict_type": word} for word in ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")),
    {"limit_all_gathers": False},
    *({key: flag} for key in ("use_orig_params", "sync_module_states", "forward_prefetch", "activation_checkpointing",
                              "activation_checkpointing_offload", "cpu_ram_efficient_loading")
      for flag in (True, False)),
    {"cpu_ram_efficient_loading": True, "sync_module_states": False},
    {"activation_checkpointing": True, "activation_checkpointing_offload": True},
]
OPPOSITE = {
    "FSDP_SHARDING_STRATEGY": "HYBRID_SHARD", "FSDP_RESHARD_AFTER_FORWARD": "false", "FSDP_OFFLOAD_PARAMS": "true",
    "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP", "FSDP_TRANSFORMER_CLS_TO_WRAP": "Other", "FSDP_MIN_NUM_PARAMS": "9",
    "FSDP_BACKWARD_PREFETCH": "BACKWARD_POST", "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_FORWARD_PREFETCH": "true", "FSDP_USE_ORIG_PARAMS": "true", "FSDP_SYNC_MODULE_STATES": "true",
    "FSDP_IGNORED_MODULES": "other",
}
PRECISIONS = ["no", "fp16", "bf16", "fp8"]


def cases():
    """name, environment, arguments, mixed precision"""
    for version in ("1", "2"):
        base = {"FSDP_VERSION": version}
        yield f"version {version}: nothing said", base, {}, "no"
        for variable, values, others in VARIABLES:
            for value in values:
                yield (f"version {version}: FSDP_{variable}={value}",
                       {**base, **others, f"FSDP_{variable}": value}, {}, "no")
        for arguments in ARGUMENTS:
            yield f"version {version}: {arguments}", {**base, **OPPOSITE}, arguments, "no"
        for precision in PRECISIONS:
            yield f"version {version}: mixed precision {precision}", base, {}, precision
            yield (f"version {version}: mixed precision {precision}, policy fp32", base,
                   {"mixed_precision_policy": "fp32"}, precision)
    yield "nothing at all", {}, {}, "no"
    for version in (1, 2):
        yield f"the program says version {version}", {"FSDP_VERSION": str(3 - version)}, {"fsdp_version": version}, "no"
    for row in json.loads(HERE.with_name("launch_env_golden.json").read_text())["rows"]:
        environment = row["environment"]
        if environment.get("ACCELERATE_USE_FSDP") == "true":
            yield (f"launch: {row['name']}", {k: v for k, v in environment.items() if k.startswith("FSDP_")}, {},
                   environment["ACCELERATE_MIXED_PRECISION"])


def with_dtypes(arguments):
    policy = arguments.get("mixed_precision_policy")
    if not isinstance(policy, dict):
        return arguments
    return {**arguments, "mixed_precision_policy": {key: getattr(torch, dtype) for key, dtype in policy.items()}}


def word(value):
    """An enumerator's name, a dtype's, or the value itself."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return value.name.removeprefix("_") if hasattr(value, "name") else value


def policy_word(policy):
    return {None: "NO_WRAP", transformer_auto_wrap_policy: "TRANSFORMER_BASED_WRAP",
            size_based_auto_wrap_policy: "SIZE_BASED_WRAP"}[policy]


def offloads(policy):
    return getattr(policy, "offload_params", type(policy).__name__ == "CPUOffloadPolicy")


def dtypes(policy):
    names = ("param_dtype", "reduce_dtype", "buffer_dtype", "output_dtype")
    return {name: word(getattr(policy, name, None)) for name in names}


def fields(plugin):
    plain = ["fsdp_version", "sharding_strategy", "reshard_after_forward", "backward_prefetch", "ignored_modules",
             "state_dict_type", "limit_all_gathers", "use_orig_params", "sync_module_states", "forward_prefetch",
             "activation_checkpointing", "activation_checkpointing_offload", "cpu_ram_efficient_loading",
             "transformer_cls_names_to_wrap", "min_num_params"]
    return {**{name: word(getattr(plugin, name)) for name in plain},
            "auto_wrap_policy": policy_word(plugin.auto_wrap_policy), "cpu_offload": offloads(plugin.cpu_offload),
            **dtypes(plugin.mixed_precision_policy)}


def row(name, environment, arguments, mixed_precision):
    result = {"name": name, "environment": environment, "arguments": arguments, "mixed_precision": mixed_precision}
    others = {key: value for key, value in os.environ.items() if not key.startswith(("FSDP_", "ACCELERATE_"))}
    with mock.patch.dict(os.environ, {**others, **environment}, clear=True), warnings.catch_warnings(), \
            mock.patch.object(dataclasses, "is_cuda_available", return_value=True), \
            mock.patch.object(torch.cuda, "current_device", return_value=0):  # as on a machine with GPUs
        warnings.simplefilter("ignore")
        try:
            plugin = FullyShardedDataParallelPlugin(**with_dtypes(arguments))
            if mixed_precision != "no":  # as AcceleratorState does
                plugin.set_mixed_precision(mixed_precision)
            result["fields"] = fields(plugin)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
    return result


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.with_suffix(".json")
    rows = [row(*case) for case in cases()]
    lines = ",\n".join(json.dumps(entry) for entry in rows)
    output.write_text(f'{{"count": {len(rows)}, "rows": [\n{lines}\n]}}\n')
    print(f"{len(rows)} rows, {sum('error' in entry for entry in rows)} errors")


if __name__ == "__main__":
    main()
