"""What the originals report: the same line of JSON as programs/measure.h."""
import json
import time


def status_kib(key):
    """A line of /proc/self/status that counts KiB, e.g. VmRSS (resident now) or VmHWM (at most so far)."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key + ":"))


def block_seconds(train, warm_up_steps, blocks, steps_per_block):
    """How long each of `blocks` blocks of train(steps_per_block) takes, after steps that are not timed."""
    train(warm_up_steps)
    seconds = []
    for _ in range(blocks):
        start = time.perf_counter()
        train(steps_per_block)
        seconds.append(time.perf_counter() - start)
    return seconds


def report(**values):
    values.update(resident_kib=status_kib("VmRSS"), peak_kib=status_kib("VmHWM"))
    print(json.dumps(values), flush=True)
