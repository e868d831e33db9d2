#!/usr/bin/env python3
"""`accelerate to-fsdp2` beside the original's conversion, on random files.

usage: to_fsdp2_live.py PROGRAM [SEED]
"""
import logging
import pathlib
import random
import subprocess
import sys
import tempfile

import yaml

try:
    from accelerate.commands.to_fsdp2 import convert_config_to_fsdp2
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

STRATEGIES = ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"]
VALUES = {
    "fsdp_version": [1], "fsdp_offload_params": [True, False], "fsdp_auto_wrap_policy": ["TRANSFORMER_BASED_WRAP", "NO_WRAP"],
    "fsdp_transformer_layer_cls_to_wrap": ["BertLayer", "A,B"], "fsdp_min_num_params": [1000], "fsdp_backward_prefetch": ["BACKWARD_PRE"],
    "fsdp_state_dict_type": ["SHARDED_STATE_DICT", "FULL_STATE_DICT"], "fsdp_forward_prefetch": [True, False],
    "fsdp_use_orig_params": [True], "fsdp_cpu_ram_efficient_loading": [True, False], "fsdp_sync_module_states": [True],
    "fsdp_activation_checkpointing": [True], "fsdp_ignored_modules": ["layer.*"],
}


def main():
    logging.disable(logging.WARNING)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        old, new = pathlib.Path(folder) / "old.yaml", pathlib.Path(folder) / "new.yaml"
        for _ in range(60):
            section = {key: chance.choice(values) for key, values in VALUES.items() if chance.random() < 0.6}
            strategy = chance.choice(["fsdp_sharding_strategy", "fsdp_reshard_after_forward", None])
            if strategy:
                section[strategy] = chance.choice(STRATEGIES)
            config = {"distributed_type": "FSDP", "num_processes": 2} | ({"fsdp_config": section} if section else {})
            old.write_text(yaml.safe_dump(config))
            subprocess.run([sys.argv[1], "to-fsdp2", "--config_file", old, "--output_file", new, "--overwrite"], check=True, timeout=20,
                           stdout=subprocess.DEVNULL)
            ours, theirs = yaml.safe_load(new.read_text()).get("fsdp_config"), convert_config_to_fsdp2(config).get("fsdp_config")
            assert ours == theirs, f"seed {seed}: {section} became {ours}, the original's {theirs}"
    print(f"60 files, seed {seed}: equal")


if __name__ == "__main__":
    main()
