"""The size of DDP's buckets between hosts that are far apart: steps of a language model of 27.1 million weights, one rank
on each of two hosts (network namespaces). The cable between them carries 1 Gbit/s each way and delivers every packet late
(benchmarks/relay.py); a round trip takes twice the delay. Ours are buckets of the size in the row, theirs the default of
25 MiB, in turns. The last row of a delay is Python Accelerate's DDP with its default against ours.
"""
from harness import Contender, Summary, alternate
from report import Absent, Row
from suites.machines import across, our_steps, their_steps
from two_hosts import two_hosts, why_not

TITLE = "Sizes of buckets between hosts"
PROGRAMS = ("sharded_steps",)
ROUNDS = 2
MEGABITS = 1000
DELAYS_MS = (1, 10)
DEFAULT_MIB, SIZES_MIB = 25, (1, 5, 12, 50, 100)


def with_buckets(mib):
    def words(setting, port, rank, steps, flags):
        return ["env", f"BENCH_BUCKET_CAP_MB={mib}", *our_steps(setting, port, rank, steps, flags)]
    return words


def rows_of(setting, say, delay_ms):
    sizes = SIZES_MIB[:1] if setting.quick else SIZES_MIB
    with two_hosts(MEGABITS, delay_ms) as hosts:
        contenders = [Contender(mib, across(setting, hosts, with_buckets(mib), ("--cpu",))) for mib in (DEFAULT_MIB, *sizes)]
        contenders.append(Contender("Python", across(setting, hosts, their_steps, "ddp_steps")))
        samples = alternate(contenders, setting.rounds, say, warm_up=False)
    times = {name: Summary.of(step for steps, _ in of for step in steps) for name, of in samples.items()}
    late = f"{delay_ms} ms late"
    return [*(Row(f"buckets of {mib} MiB, {late}", "ms", times[mib], times[DEFAULT_MIB]) for mib in sizes),
            Row(f"ours against Python, {late}", "ms", times[DEFAULT_MIB], times["Python"])]


def measure(setting, say):
    if why_not():
        return [Absent("buckets between hosts", why_not())]
    return [row for delay_ms in DELAYS_MS for row in rows_of(setting, say, delay_ms)]
