"""What bench_offload_steps does, with DeepSpeed: ZeRO 3, its states in memory or on disk, one rank.

usage: offload_steps.py FOLDER|memory BLOCKS WIDTH ROWS STEPS

memory: parameters and optimizer state in CPU memory (DeepSpeedCPUAdam). FOLDER: both there, by its `async_io`.
"""
import os
import socket
import sys
import time

import measure

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    PORT = str(probe.getsockname()[1])
# DeepSpeed compiles its operators when they are first used, by ninja, which lies beside Python.
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": PORT, "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
               "TORCH_EXTENSIONS_DIR": f"{sys.prefix}/torch_extensions"}
import deepspeed  # noqa: E402
import torch  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def config(folder, width):
    """Buffers no larger than a few blocks: their defaults alone take gigabytes."""
    block, matrix = 8 * width * width + 7 * width, 4 * width * width
    place = {"device": "cpu"} if folder == "memory" else {"device": "nvme", "nvme_path": folder}
    return {"train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}},
            "zero_optimization": {"stage": 3, "sub_group_size": block, "reduce_bucket_size": block,
                                  "stage3_prefetch_bucket_size": block, "stage3_max_live_parameters": 3 * block,
                                  "stage3_max_reuse_distance": block, "stage3_param_persistence_threshold": 0,
                                  "offload_param": {**place, "buffer_count": 8, "buffer_size": matrix, "max_in_cpu": 0},
                                  "offload_optimizer": {**place, "buffer_count": 16, "pipeline_read": True,
                                                        "pipeline_write": True}},
            "aio": {"block_size": 1 << 20, "queue_depth": 8, "intra_op_parallelism": 4, "single_submit": False,
                    "overlap_events": True}}


def kernel_bytes():
    with open("/proc/self/io", encoding="ascii") as file:
        found = dict(line.split(": ") for line in file.read().splitlines())
    return int(found["read_bytes"]), int(found["write_bytes"])


def step(engine, x):
    before, start = kernel_bytes(), time.perf_counter()
    loss = engine(x).square().mean()
    forward = time.perf_counter()
    engine.backward(loss)
    backward = time.perf_counter()
    engine.step()
    end, after = time.perf_counter(), kernel_bytes()
    return {"seconds": end - start, "forward": forward - start, "backward": backward - forward, "update": end - backward,
            "loss": loss.item(), "kernel_read": after[0] - before[0], "kernel_written": after[1] - before[1]}


def main():
    folder, blocks, width, rows, steps = sys.argv[1], *map(int, sys.argv[2:6])
    torch.set_num_threads(1)
    torch.manual_seed(42)
    deepspeed.init_distributed("gloo")
    with deepspeed.zero.Init(config_dict_or_path=config(folder, width), enabled=True):
        model = torch.nn.Sequential(*(Block(width) for _ in range(blocks)))
    parameters = sum(getattr(weight, "ds_numel", weight.numel()) for weight in model.parameters())
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config(folder, width))
    x = torch.randn(rows, width)
    taken = [step(engine, x) for _ in range(steps)]
    measure.report(parameters=parameters, by_rank=[{"steps": taken}])
    sys.stdout.flush()
    os._exit(0)  # Its threads of async_io may outlive main().


main()
