"""Collectives of 2, 4 and 8 ranks on one machine, and training over them; one thread a rank, theirs is Gloo.

- **A row of a collective** is the time of one call, ours under `accelerate launch`, theirs with `torch.distributed`
  over Gloo under `torchrun`. A block of calls is timed on rank 0 and ends with a barrier; minima and medians are over
  blocks. The size is that of a rank's tensor of floats, and of the whole (all ranks' parts) for all_gather's output,
  reduce_scatter's and scatter's input, gather's output. `send` is a message one way between neighbours, all pairs at
  once.
- **In place**: the tensor lies in the memory that the communicator gives for that, as gradients do; otherwise it is
  an ordinary tensor.
- **Bound**: what the memory of the machine allows, measured by the same processes in the same run: a loop that adds
  1 to every number of an array of the row's size, which reads and writes each byte once, all ranks at a time; small
  arrays stay in the cache. It is scaled by the bytes that a rank's core must at least read and write, of a tensor or whole of N bytes on W ranks:
  all_reduce, all_gather, broadcast and all_to_all N read + N written; reduce_scatter and reduce N + N/W; gather and
  scatter N/W + N/W; send N/2 + N/2, for both could share the work. `of bound` is the bound divided by our minimum.
- **8 ranks against 2**: eight ranks share two cores and handle four times the bytes, so their time is divided by four.
- **Training**: milliseconds a step over blocks of steps. The convolutional network is that of the suite `cv`; the
  transformer is six encoder layers of width 512 (18.9 million weights), 4 x 64 tokens a rank, AdamW. Against one
  rank: our own loop in one process on one core in the same run, with the batch of a rank, so 1.0 would be two ranks
  that lose nothing to each other or to the memory that they share. Against two unconnected processes: the same beside
  itself on the other core, which shows what the machine alone takes. Theirs is Python Accelerate, two ranks under
  `torchrun`. Two ranks step at the pace of the one that is slower just then, so their medians say more of the machine.
"""
import concurrent.futures
import json
import os

from harness import FOLDER, Contender, Summary, alternate, run
from report import AtMost, Both, OfBound, Row, Times

TITLE = "Collectives on one machine, and training over them: ours and Gloo"
PROGRAMS = ("collectives", "train_steps", "transformer_steps")
PLOT_NEEDS = "matplotlib"
ROUNDS = 3
# Two ranks are as fast as the slower core just then, so both need a quiet moment at once: many short looks find one.
TRAINING_ROUNDS = 3  # For each of the others.
CONVOLUTIONAL, TRANSFORMER = (50, 60, 8), (2, 6, 2)  # Steps to warm up, blocks, steps a block.

RANKS = (2, 4, 8)
SIZES_KIB = (4, 256, 4 * 1024, 64 * 1024)
BLOCKS_AND_CALLS = {4: (10, 50), 256: (8, 20), 4 * 1024: (6, 5), 64 * 1024: (3, 1)}
IN_PLACE = "_in_place"
# Bytes read and written, in bytes of the bound's loop (N read and N written), on W ranks.
SHARES = {"all_reduce": lambda w: 1, "all_gather": lambda w: 1, "reduce_scatter": lambda w: (1 + 1 / w) / 2,
          "broadcast": lambda w: 1, "reduce": lambda w: (1 + 1 / w) / 2, "gather": lambda w: 1 / w,
          "scatter": lambda w: 1 / w, "all_to_all": lambda w: 1, "send": lambda w: 1 / 2}
REDUCED_IN_PLACE = ("all_reduce", "all_gather", "reduce_scatter")
TARGETS = {(2, 4, "all_reduce"): Both(AtMost(10), Times(100)),
           (2, 4 * 1024, "all_reduce"): Times(10),
           (2, 64 * 1024, "all_reduce" + IN_PLACE): Both(Times(4), OfBound(0.7)),
           (2, 64 * 1024, "all_gather"): Times(7), (2, 64 * 1024, "reduce_scatter"): Times(7)}
POINTS = "collectives.json"  # What picture() draws, in the setting's home.


def reported(setting, command):
    return lambda: run(setting, command()).report()


def words(setting, kib):
    return (kib, 1, 1) if setting.quick else (kib, *BLOCKS_AND_CALLS[kib])


def both_sides(setting, ranks, kib, say):
    """Reports of ours and of theirs."""
    program, original = setting.program("collectives"), setting.original("collectives")
    label = f"{ranks} ranks, {size_text(kib)}"
    return alternate([
        Contender(f"ours, {label}", reported(setting, lambda: setting.launch(ranks, program, *words(setting, kib)))),
        Contender(f"theirs, {label}",
                  reported(setting, lambda: setting.torchrun(ranks, original, *words(setting, kib))))],
        setting.rounds, say).values()


def size_text(kib):
    return f"{kib} KiB" if kib < 1024 else f"{kib // 1024} MiB"


def seconds_of(reports, name):
    return [value for report in reports for value in report["seconds"][name]]


def collective_row(ranks, kib, name, ours, theirs):
    """`ours` and `theirs` are reports. Small tensors in microseconds, large ones in milliseconds."""
    unit, scale = ("µs", 1e6) if kib < 1024 else ("ms", 1e3)
    plain = name.removesuffix(IN_PLACE)
    mine, others = (Summary.of(value * scale for value in seconds_of(reports, key))
                    for reports, key in ((ours, name), (theirs, plain)))
    what = f"{plain}{' in place' if name != plain else ''}, {ranks} ranks"
    if plain == "barrier":
        return Row(what, unit, mine, others)
    bound = min(seconds_of(ours, "memory")) * SHARES[plain](ranks) * scale
    return Row(f"{what}, {size_text(kib)}", unit, mine, others, TARGETS.get((ranks, kib, name)), bound)


def names_of(kib):
    return [*SHARES, *(name + IN_PLACE for name in REDUCED_IN_PLACE), *(["barrier"] if kib == SIZES_KIB[0] else [])]


def collectives(setting, say):
    """Rows by (ranks, KiB, name)."""
    rows, engines = {}, set()
    for ranks in RANKS:
        for kib in SIZES_KIB:
            ours, theirs = both_sides(setting, ranks, kib, say)
            engines |= {report["backend"] for report in ours}
            for name in names_of(kib):
                rows[ranks, kib, name] = collective_row(ranks, kib, name, ours, theirs)
    points = [{"ranks": ranks, "kib": kib, "name": name, "ours": seconds(row, row.ours.minimum),
               "theirs": seconds(row, row.theirs.minimum), "bound": seconds(row, row.bound)}
              for (ranks, kib, name), row in rows.items() if name != "barrier"]
    kept = {"engine": ", ".join(sorted(engines)), "points": points}
    (setting.home / POINTS).write_text(json.dumps(kept), encoding="utf-8")
    return rows


def seconds(row, value):
    return value / (1e6 if row.unit == "µs" else 1e3)


def eight_against_two(rows):
    """The largest tensor, for a byte of all ranks together."""
    two, eight = (rows[ranks, SIZES_KIB[-1], "all_reduce" + IN_PLACE].ours for ranks in (2, 8))
    shared = Summary(eight.minimum / 4, eight.median / 4)
    return Row(f"all_reduce in place, 8 ranks ÷ 4 against 2, {size_text(SIZES_KIB[-1])}", "ms", shared, two,
               Times(0.333))


def on_core(core, program, *arguments):
    return ["taskset", "--cpu-list", core, program, *arguments]


def alone(setting, *command):
    """The report of our loop in one process on the first core that we may use."""
    return run(setting, on_core(min(os.sched_getaffinity(0)), *command)).report()


def unconnected(setting, *command):
    """The same beside itself on the next core: what two ranks that never meet make of this machine. The report is that
    of the one that was through first, which had a neighbour all the time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        cores = sorted(os.sched_getaffinity(0))[:2]
        both = [pool.submit(run, setting, on_core(core, *command)) for core in cores]
        return min((ended.result() for ended in both), key=lambda finished: finished.seconds).report()


def training(setting, what, name, sizes, say, against_one=None, against_theirs=None):
    """Rows: two ranks against one, against two that never meet, and against theirs."""
    program, original = setting.program(name), setting.original(name)
    one, apart, ours, theirs = alternate([
        Contender(f"{what}, ours alone", lambda: alone(setting, program, *sizes)),
        Contender(f"{what}, ours unconnected", lambda: unconnected(setting, program, *sizes)),
        Contender(f"{what}, ours", reported(setting, lambda: setting.launch(2, program, *sizes))),
        Contender(f"{what}, theirs", reported(setting, lambda: setting.torchrun(2, original, *sizes)))],
        setting.rounds * (1 if setting.quick else TRAINING_ROUNDS), say).values()
    one, apart, ours, theirs = (
        Summary.of(value * 1e3 / sizes[-1] for report in reports for value in report["block_seconds"])
        for reports in (one, apart, ours, theirs))
    return [Row(f"{what}, 2 ranks against ours alone on a core", "ms", ours, one, against_one),
            Row(f"{what}, 2 ranks against 2 unconnected processes", "ms", ours, apart),
            Row(f"{what}, 2 ranks against Python Accelerate", "ms", ours, theirs, against_theirs)]


def measure(setting, say):
    small, large = ((2, 1, 2), (1, 1, 1)) if setting.quick else (CONVOLUTIONAL, TRANSFORMER)
    rows = collectives(setting, say)
    trained = [*training(setting, "convolutional network", "train_steps", small, say, Times(0.93), Times(1.25)),
               *training(setting, "transformer", "transformer_steps", large, say)]
    judged = [row for row in rows.values() if row.target]
    others = [row for row in rows.values() if not row.target]
    return [*judged, eight_against_two(rows), *trained, *others]


def picture(setting, path):
    """Draws what measure() left behind into `path`, and returns what stands below it."""
    run(setting, [setting.venv / "bin" / "python", FOLDER / "plots" / "collectives.py", setting.home / POINTS, path])
    engine = json.loads((setting.home / POINTS).read_text(encoding="utf-8"))["engine"]
    return f"Time of a call by size, both axes logarithmic; less is better. Ours ran over {engine}."
