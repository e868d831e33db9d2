"""Writes profiler_schedule.txt: what torch.profiler.schedule does in each step.

usage: profiler_schedule.py [FOLDER]; default: the folder of this script. Each line: wait, warmup, active, repeat,
skip_first, skip_first_wait, then the actions of steps 0 to 23 as letters: n(one), w(armup), r(ecord), s(ave).
"""
import itertools
import pathlib
import sys
import warnings

from torch.profiler import ProfilerAction, schedule

LETTERS = {ProfilerAction.NONE: "n", ProfilerAction.WARMUP: "w", ProfilerAction.RECORD: "r",
           ProfilerAction.RECORD_AND_SAVE: "s"}
STEPS = 24


def rows():
    for wait, warmup, active, repeat, first, shift in itertools.product((0, 1, 3), (0, 1, 2), (1, 2, 4), (0, 1, 2),
                                                                         (0, 2), (0, 1)):
        plan = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=first,
                        skip_first_wait=shift)
        letters = "".join(LETTERS[plan(step)] for step in range(STEPS))
        yield f"{wait} {warmup} {active} {repeat} {first} {shift} {letters}"


def main():
    warnings.simplefilter("ignore")
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    (folder / "profiler_schedule.txt").write_text("\n".join(rows()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
