"""Runs contenders in turns, so that a busy moment of the machine falls on all of them, and sums up what they took."""
import contextlib
import dataclasses
import json
import os
import pathlib
import select
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

FOLDER = pathlib.Path(__file__).resolve().parent
LIMIT_SECONDS = 300


class BenchmarkError(Exception):
    """What the user can put right; its text is all there is to show."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where things are, how often they run, and what every program finds in its environment."""
    build: pathlib.Path
    venv: pathlib.Path
    home: pathlib.Path  # Empty: nobody's own configuration file takes part.
    rounds: int
    quick: bool = False
    samples: pathlib.Path | None = None  # Takes a line of JSON for each program that ran.

    @property
    def accelerate(self):
        return self.build / "bin" / "accelerate"

    def program(self, name):
        return self.build / "benchmarks" / f"bench_{name}"

    def original(self, name):
        return FOLDER / "originals" / f"{name}.py"

    def launch(self, ranks, *command):
        """Our launcher."""
        return [self.accelerate, "launch", "--num_processes", ranks, "--cpu", *command]

    def torchrun(self, ranks, *command):
        """Theirs: upstream's own `accelerate launch` starts a single process on the CPU."""
        return [self.venv / "bin" / "torchrun", "--nproc_per_node", ranks, "--master_addr", "127.0.0.1",
                "--master_port", free_port(), *command]

    def environment(self):
        names = ("LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return kept | {"PATH": f"{self.venv / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home),
                       "HF_HOME": str(self.home), "OMP_NUM_THREADS": "1"}


@dataclasses.dataclass(frozen=True)
class Finished:
    """A program that has run: when it was started (on the machine's clock), how long it took, what it printed."""
    started_ns: int
    seconds: float
    output: str

    def report(self):
        """The line of JSON that rank 0 printed."""
        for line in self.output.splitlines():
            if line.startswith("{"):
                return json.loads(line)
        raise BenchmarkError(f"The program reported nothing; it printed:\n{tail(self.output)}")


def run(setting, command, limit_seconds=None):
    """Runs `command` to its end. Throws BenchmarkError when it fails or takes longer than `limit_seconds` (LIMIT_SECONDS)."""
    limit_seconds = limit_seconds or LIMIT_SECONDS
    words = [str(word) for word in command]
    with tempfile.TemporaryFile() as output:
        started_ns, start = time.time_ns(), time.perf_counter()
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env=setting.environment(), start_new_session=True)
        ended = wait(process, limit_seconds)
        seconds = time.perf_counter() - start
        if not ended:
            stop(process)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if setting.samples:
        with open(setting.samples, "a", encoding="utf-8") as log:
            print(json.dumps({"command": words, "seconds": seconds, "output": tail(text)}), file=log)
    if process.wait() != 0:
        how = f"ended with {process.returncode}" if ended else f"took longer than {limit_seconds} s"
        raise BenchmarkError(f"`{' '.join(words)}` {how}; it printed:\n{tail(text)}")
    return Finished(started_ns, seconds, text)


def wait(process, limit_seconds):
    """Whether `process` ended in time. Sleeps until then: Popen.wait with a limit polls, which blurs milliseconds."""
    descriptor = os.pidfd_open(process.pid)
    try:
        return bool(select.select([descriptor], [], [], limit_seconds)[0])
    finally:
        os.close(descriptor)


def stop(process):
    """Asks a launcher to end its ranks, then insists."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def tail(text, lines=15):
    return "\n".join(text.splitlines()[-lines:]) or "(nothing)"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    run: Callable  # Without arguments; returns one sample.
    repeat: int = 1  # Samples in a turn: the quick ones can afford more.


def sample(contender, say):
    """One sample. A contender that fails runs again, twice at most: PyTorch's ranks now and then abort at their end."""
    for left in (2, 1, 0):
        try:
            return contender.run()
        except BenchmarkError as error:
            if not left:
                raise
            say(f"{contender.name} failed and runs again: {error}")


def alternate(contenders, rounds, say=lambda text: None, warm_up=True):
    """The samples of each contender by name, taken in turns, by default after one run each that does not count."""
    for contender in contenders if warm_up else ():
        say(f"warm up: {contender.name}")
        sample(contender, say)
    samples = {contender.name: [] for contender in contenders}
    for number in range(1, rounds + 1):
        for contender in contenders:
            say(f"round {number} of {rounds}: {contender.name}")
            samples[contender.name] += [sample(contender, say) for _ in range(contender.repeat)]
    return samples


@dataclasses.dataclass(frozen=True)
class Summary:
    """What many samples of one quantity come to."""
    minimum: float
    median: float

    @classmethod
    def of(cls, samples):
        samples = list(samples)
        return cls(min(samples), statistics.median(samples))

    def __sub__(self, other):
        return Summary(self.minimum - other.minimum, self.median - other.median)
