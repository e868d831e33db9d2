"""Sharded training of a small language model on one machine: six layers of width 512, 27.1 million weights with
embedding and head, 4 x 64 tokens a rank, AdamW, two ranks of one thread each.

- **Shared pages**: both ranks map one copy of the parameters. **Gathered over Gloo**: units travel by all-gathers, as
  between hosts. Units are the layers (TRANSFORMER_BASED_WRAP), FULL_SHARD.
- **Unconnected**: the same program alone in two processes that never meet, one on each core, both at once; that of the
  one that was through first.
- **Freed memory given back**: the same without what an `Accelerator` tells glibc's allocator, which it leaves alone when
  the environment tunes it (here by a setting that is glibc's own).
- **Theirs** is PyTorch's FSDP 2 over Gloo under `torchrun`, with the fused AdamW; Python Accelerate has no FSDP on the
  CPU. In bf16 both keep fp32 masters; theirs is left out where the CPU has no AVX512-BF16 (LibTorch takes 20 s a step
  there), and ours may compute in fp32: the row says so.
- **Watched**: the program in one process, unsharded, with the watch over operators by which gathered units come on
  first touch, and without it, step by step in turns.
- **Memory** is the proportional set size of both ranks together at the end of a backward, when gradients are there;
  that of theirs includes two Pythons.
"""
import concurrent.futures
import os

from harness import Contender, Summary, alternate, run
from report import Row, Times

TITLE = "Sharded training on one machine: ours and PyTorch's FSDP 2"
PROGRAMS = ("sharded_steps", "watched_steps")
ROUNDS = 3
SIZES, QUICK_SIZES = (2, 8, 2), (1, 1, 1)  # Steps to warm up, blocks, steps a block.
FLAGS = ("--use_fsdp", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--fsdp_transformer_layer_cls_to_wrap",
         "Block", "--fsdp_sync_module_states", "true", "--fsdp_backward_prefetch", "BACKWARD_PRE",
         "--fsdp_forward_prefetch", "true")  # As FSDP 2 does by itself.
OVER_GLOO = ("env", "ACCELERATE_COMM=gloo")
TUNED = ("env", "GLIBC_TUNABLES=glibc.rtld.nns=4")
HALF = ("--mixed_precision", "bf16")


def sharded(setting, sizes, *flags, before=()):
    words = [*before, setting.accelerate, "launch", "--num_processes", 2, *FLAGS, *flags,
             setting.program("sharded_steps"), *sizes]
    return lambda: run(setting, words).report()


def replicated(setting, sizes):
    return lambda: run(setting, setting.launch(2, setting.program("sharded_steps"), *sizes)).report()


def unconnected(setting, sizes):
    cores = sorted(os.sched_getaffinity(0))[:2]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        both = [pool.submit(run, setting, ["taskset", "--cpu-list", core, setting.program("sharded_steps"), *sizes])
                for core in cores]
        return min((ended.result() for ended in both), key=lambda finished: finished.seconds).report()


def theirs(setting, sizes, before=()):
    return lambda: run(setting, [*before, *setting.torchrun(2, setting.original("fsdp2_steps"), *sizes)]).report()


def has_fast_bf16():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return "avx512_bf16" in file.read()


def measure(setting, say):
    sizes, watched_sizes = (QUICK_SIZES, (2, 2)) if setting.quick else (SIZES, (4, 30))
    theirs_in_half = [Contender("theirs bf16", theirs(setting, sizes, ("env", "SHARDED_STEPS_BF16=1")))]
    reports = alternate([
        Contender("pages", sharded(setting, sizes)),
        Contender("given back", sharded(setting, sizes, before=TUNED)),
        Contender("unconnected", lambda: unconnected(setting, sizes)),
        Contender("gloo", sharded(setting, sizes, before=OVER_GLOO)),
        Contender("theirs", theirs(setting, sizes)),
        Contender("ddp", replicated(setting, sizes)),
        Contender("watched", lambda: run(setting, [setting.program("watched_steps"), *watched_sizes]).report()),
        Contender("pages bf16", sharded(setting, sizes, *HALF)),
        *(theirs_in_half if has_fast_bf16() else [])],
        setting.rounds, say)

    def step(name):
        return Summary.of(value * 1e3 / sizes[-1] for report in reports[name] for value in report["block_seconds"])

    def watched(key):
        return Summary.of(value * 1e3 for report in reports["watched"] for value in report[key])

    def memory(name):
        return Summary.of(report["proportional_mib"] for report in reports[name])

    computed_in = reports["pages bf16"][0]["computed_in"]
    target = Times(1.4) if computed_in == "BFloat16" else None
    rows = [Row("shared pages against 2 unconnected processes", "ms", step("pages"), step("unconnected"), Times(0.971)),
            Row("shared pages against FSDP 2", "ms", step("pages"), step("theirs")),
            Row("gathered over Gloo against FSDP 2", "ms", step("gloo"), step("theirs"), Times(1)),
            Row("shared pages against our DDP through shared memory", "ms", step("pages"), step("ddp")),
            Row(f"shared pages in bf16 (computed in {computed_in}) against fp32", "ms", step("pages bf16"), step("pages"),
                target),
            Row("shared pages against freed memory given back", "ms", step("pages"), step("given back")),
            Row("a step under the watch against one without", "ms", watched("accelerated_seconds"),
                watched("plain_seconds"), Times(0.99)),
            Row("memory of both ranks: shared pages against FSDP 2", "MiB", memory("pages"), memory("theirs")),
            Row("memory of both ranks: shared pages against our DDP", "MiB", memory("pages"), memory("ddp"))]
    if not has_fast_bf16():
        return rows
    return [*rows,
            Row("shared pages in bf16 against FSDP 2 in bf16", "ms", step("pages bf16"), step("theirs bf16")),
            Row("memory of both ranks in bf16: shared pages against FSDP 2", "MiB", memory("pages bf16"),
                memory("theirs bf16"))]
