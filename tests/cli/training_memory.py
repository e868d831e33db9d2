#!/usr/bin/env python3
"""What trainings of three sizes take on each process, beside what `accelerate estimate-memory` says and the 100 MB that its last line
says a process takes besides: within a tenth.

usage: training_memory.py BUILD. Takes up to 14 GB and three minutes.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
ACCELERATE = BUILD / "bin" / "accelerate"
UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
# Layers and width: 220, 330 and 430 million parameters.
SIZES = [(16, 1024), (24, 1024), (20, 1280)]
BESIDES = 100 * 2**20
# Strategy in the table, processes, sharding strategy, and whether the ranks have no pages in common: then layers are gathered.
STRATEGIES = [("DDP, NO_SHARD", 1, None, False), ("DDP, NO_SHARD", 2, None, False), ("both, CPUs of one machine", 2, "FULL_SHARD", False),
              ("FULL_SHARD", 2, "FULL_SHARD", True), ("SHARD_GRAD_OP", 2, "SHARD_GRAD_OP", True)]


def write_config(folder, layers, width):
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "intermediate_size": 3 * width,
              "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 4000,
              "max_position_embeddings": 128, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
    (folder / "config.json").write_text(json.dumps(config))


def predicted(folder, strategy, processes):
    text = subprocess.run([ACCELERATE, "estimate-memory", folder, "--num_processes", str(processes)], capture_output=True, text=True,
                          check=True, timeout=60).stdout
    number, unit = re.search(rf"[│|] {re.escape(strategy)} +[│|] +([0-9.]+) ([KMG]B)", text).groups()
    return float(number) * UNITS[unit] + BESIDES


def taken(folder, processes, sharding, is_gathered):
    set_up = f"use_cpu: true\nnum_processes: {processes}\ndistributed_type: {'FSDP' if sharding else 'MULTI_CPU'}\n"
    if sharding:
        set_up += f"fsdp_config:\n  fsdp_sharding_strategy: {sharding}\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    (folder / "set_up.yaml").write_text(set_up)
    command = [ACCELERATE, "launch", "--config_file", folder / "set_up.yaml", BUILD / "tests" / "memory_probe", folder]
    environment = os.environ | ({"ACCELERATE_COMM": "gloo"} if is_gathered else {})
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment).stdout)


def main():
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for layers, width in SIZES:
            write_config(folder, layers, width)
            for strategy, processes, sharding, is_gathered in STRATEGIES:
                wanted, found = predicted(folder, strategy, processes), taken(folder, processes, sharding, is_gathered)
                worst = max(worst, abs(found / wanted - 1))
                print(f"{layers} layers of {width}, {strategy}, {processes} processes: {wanted / 2**20:.0f} MB said, {found / 2**20:.0f} MB taken "
                      f"({found / wanted:.3f})", flush=True)
    print(f"at most {worst:.1%} apart")
    sys.exit(worst > 0.1)


if __name__ == "__main__":
    main()
