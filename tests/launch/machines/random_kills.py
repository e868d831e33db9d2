#!/usr/bin/env python3
"""Kills ranks, launchers and machines of a training and cuts their links, at random moments, again and again.

usage: random_kills.py BUILD [--kills N] [--seed N] [--keep]

A Trainer trains on two machines. A scheduler, played here, starts a launcher again that has ended. Each training must end
with the losses and the weights of one that nobody disturbed, bit for bit; and leave no process and no port. Without a new
checkpoint within the limit it hangs.

ACCELERATE_RANDOM_FAULTS says how many kills (4), ACCELERATE_RANDOM_SEED where they begin; a failure prints the seed of its
training, which `--seed` plays again. Machines are network namespaces where those may be had, else on loopback.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
STEPS, SAVE_STEPS = 60, 2
LIMIT_SECONDS = 120  # For a new checkpoint after a kill.
LEAVE_SECONDS = 20  # For processes and ports to be gone after the end.
TAG = "ACCELERATE_TEST_TAG"


class Finding(Exception):
    pass


def wait_until(done, seconds, what):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise Finding(what() if callable(what) else what)
        time.sleep(0.01)


def processes(tag):
    """The processes, other than zombies, that were started with `tag` in their environment, and their command lines."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if f"{TAG}={tag}".encode() not in (folder / "environ").read_bytes():
                continue
            if (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Namespaces:
    """Two hosts with a cable between them."""

    def __init__(self):
        self.keepers = [subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
        own = os.readlink("/proc/self/ns/net")
        for keeper in self.keepers:
            wait_until(lambda k=keeper: self._has_moved(k, own), 10, "no network namespace")
        self._ip(0, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self.keepers[1].pid))
        for host in (0, 1):
            self._ip(host, "link", "set", "lo", "up")
            self._ip(host, "address", "add", f"10.99.0.{host + 1}/24", "dev", "cable")
            self._ip(host, "link", "set", "cable", "up")

    @staticmethod
    def _has_moved(keeper, own):
        if keeper.poll() is not None:
            raise OSError("a process that makes a network namespace has ended")
        return os.readlink(f"/proc/{keeper.pid}/ns/net") != own and pathlib.Path(f"/proc/{keeper.pid}/comm").read_text() == "sleep\n"

    def _ip(self, host, *words):
        subprocess.run([*self.on(host), "ip", *words], check=True, capture_output=True)

    def on(self, host):
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", "--target", str(self.keepers[host].pid), "--net"]

    def link(self, state):
        self._ip(1, "link", "set", "cable", state)

    def listening(self):
        """Ports that somebody listens on."""
        return [line.split()[1] for keeper in self.keepers for table in ("tcp", "tcp6")
                for line in pathlib.Path(f"/proc/{keeper.pid}/net/{table}").read_text().splitlines()[1:] if line.split()[3] == "0A"]

    def close(self):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()


class Loopback:
    """Machines of the static rendezvous, which are processes of this one."""

    def __init__(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]

    def on(self, host):
        return []

    def listening(self):
        with socket.socket() as one:
            return [] if one.connect_ex(("127.0.0.1", self.port)) else [str(self.port)]

    def close(self):
        pass


class Training:
    """Launchers of two machines with `ranks` ranks each, and what starts them again."""

    def __init__(self, build, folder, hosts, ranks):
        self.build, self.folder, self.hosts, self.ranks = build, folder, hosts, ranks
        self.tag = uuid.uuid4().hex
        self.launchers, self.started, self.logs = [None, None], [0, 0], [None, None]
        self.starts, self.resume = 0, []
        folder.mkdir(parents=True)

    def start(self, machine):
        where = (["--rdzv_backend", "c10d", "--main_process_ip", "10.99.0.1", "--main_process_port", "29500"]
                 if isinstance(self.hosts, Namespaces) else
                 ["--machine_rank", str(machine), "--main_process_ip", "127.0.0.1", "--main_process_port", str(self.hosts.port)])
        if machine == 0:  # The other machine is started with the same words.
            self.resume = ["--resume_from_checkpoint", "true"] if self.newest() else []
        words = [*self.hosts.on(machine), self.build / "bin/accelerate", "launch", "--cpu", "--num_machines", "2", "--num_processes",
                 str(2 * self.ranks), "--max_restarts", "1000", "--grace_period", "3", *where, self.build / "tests/template_trainer",
                 "--data", ROOT / "cli/project_template/trainer/flowers.csv", "--output_dir", self.folder / "run",
                 "--max_steps", STEPS, "--per_device_train_batch_size", "4", "--logging_steps", "1", "--save_strategy", "steps",
                 "--save_steps", SAVE_STEPS, "--save_total_limit", "2", "--eval_strategy", "no", "--load_best_model_at_end", "false",
                 "--disable_tqdm", "true", *self.resume]
        self.starts += 1
        self.started[machine] = time.monotonic()
        self.logs[machine] = self.folder / f"launcher{self.starts}.log"
        log = open(self.logs[machine], "wb")
        environment = {**os.environ, TAG: f"{self.tag}-{machine}", "OMP_NUM_THREADS": "1"}
        self.launchers[machine] = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   env=environment, start_new_session=True)
        log.close()

    def newest(self):
        """The step of the newest complete checkpoint; 0 without one."""
        steps = [int(path.parent.name.split("-")[1]) for path in (self.folder / "run").glob("checkpoint-*/manifest.json")]
        return max(steps, default=0)

    def mind(self):
        """Starts again what has ended, as a scheduler would. Returns whether the training is done."""
        codes = [one.poll() for one in self.launchers]
        if codes[0] == 0:
            # A machine that was lost when all was done, and started again, finds nobody.
            if codes[1] is None and time.monotonic() - self.started[1] > 5 and self.came_late():
                self.launchers[1].terminate()
            return codes[1] is not None
        if codes[0] is not None:  # The machine with the store: the job of the other one ends too.
            if codes[1] is None:
                if self.came_late():  # It has never met this job.
                    self.launchers[1].terminate()
                return False
            self.start(0)
            self.start(1)
        elif codes[1] is not None and time.monotonic() - self.started[1] > 1:
            # Under the static rendezvous the job may be over; then this one finds its number taken, and ends.
            self.start(1)
        return False

    def came_late(self):
        return "waiting for machine 0" in self.logs[1].read_text(errors="replace")

    def strike(self, rng):
        """Does one thing, and returns its name."""
        kinds = ["rank", "launcher", "machine"] + (["link"] if isinstance(self.hosts, Namespaces) else [])
        kind, machine = rng.choice(kinds), rng.randrange(2)
        there = processes(f"{self.tag}-{machine}")
        if kind == "rank":
            ranks = sorted(pid for pid, command in there.items() if command.startswith(str(self.build / "tests/template_trainer")))
            kill(rng.sample(ranks, min(1, len(ranks))))
        elif kind == "launcher":
            if self.launchers[machine].poll() is None:
                kill([self.launchers[machine].pid])
        elif kind == "machine":
            kill(there)
        else:
            seconds = rng.choice((0.2, 1, 3, 6))
            kind += f" for {seconds} s"
            self.hosts.link("down")
            time.sleep(seconds)
            self.hosts.link("up")
        return f"{kind} of machine {machine}"

    def run(self, rng=None, kills=0):
        """Trains to the end; returns what struck."""
        self.start(0)
        self.start(1)
        struck, since, known = [], time.monotonic(), 0
        next_kill = since + rng.uniform(0, 2) if rng else None
        done = False
        while not done:
            done = self.mind()
            if (newest := self.newest()) > known:
                since, known = time.monotonic(), newest
                if rng and next_kill is None:
                    next_kill = since + rng.uniform(0, 0.8)
            if time.monotonic() - since > LIMIT_SECONDS:
                raise Finding(f"no checkpoint after {known} for {LIMIT_SECONDS} s; struck: {struck}")
            if not done and len(struck) < kills and next_kill is not None and time.monotonic() > next_kill:
                struck.append(f"{self.strike(rng)} at {known}")
                since = time.monotonic()
                # Some strike while the machines still meet, the others after a new checkpoint.
                next_kill = since + rng.uniform(0, 1.5) if rng.random() < 0.3 else None
            time.sleep(0.02)
        self.expect_nothing_left()
        return struck

    def expect_nothing_left(self):
        wait_until(lambda: not processes(self.tag), LEAVE_SECONDS, lambda: f"left behind: {processes(self.tag)}")
        wait_until(lambda: not self.hosts.listening(), LEAVE_SECONDS, lambda: f"ports still listened on: {self.hosts.listening()}")

    def trajectory(self):
        """The losses of all steps and the bytes of the weights."""
        state = json.loads((self.folder / "run" / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
        losses = [(log["step"], log["loss"], log["grad_norm"], log["learning_rate"]) for log in state["log_history"] if "loss" in log]
        return losses, (self.folder / "run" / "model.safetensors").read_bytes()

    def end(self):
        kill(processes(self.tag))
        for launcher in self.launchers:
            if launcher:
                launcher.wait()


class Plays:
    def __init__(self, build, folder):
        self.build, self.folder, self.wholes = build, folder, {}

    def train(self, name, kind, ranks, rng=None, kills=0):
        hosts = kind()
        training = Training(self.build, self.folder / name, hosts, ranks)
        try:
            struck = training.run(rng, kills)
            return struck, training.trajectory()
        finally:
            training.end()
            hosts.close()

    def play(self, seed, kinds, most):
        """One training with up to `most` kills; returns how many there were."""
        rng = random.Random(seed)
        kind, ranks, kills = rng.choice(kinds), rng.choice((1, 2)), min(most, rng.randint(3, 8))
        if (kind, ranks) not in self.wholes:
            self.wholes[kind, ranks] = self.train(f"whole-{kind.__name__}-{ranks}", kind, ranks)[1]
        struck, (losses, weights) = self.train(f"play-{seed}", kind, ranks, rng, kills)
        whole_losses, whole_weights = self.wholes[kind, ranks]
        if losses != whole_losses:
            first = next((pair for pair in zip(losses, whole_losses) if pair[0] != pair[1]), (len(losses), len(whole_losses)))
            raise Finding(f"another trajectory: {first}; struck: {struck}")
        if weights != whole_weights:
            raise Finding(f"other weights; struck: {struck}")
        print(f"seed {seed}: {kind.__name__}, {2 * ranks} ranks: {'; '.join(struck)}", flush=True)
        return len(struck)


def kinds_here():
    try:
        Namespaces().close()
        return [Namespaces, Namespaces, Loopback]
    except (OSError, subprocess.CalledProcessError, Finding) as error:
        print(f"machines are processes on loopback, for there are no network namespaces: {error}")
        return [Loopback]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=int(os.environ.get("ACCELERATE_RANDOM_FAULTS", 4)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("ACCELERATE_RANDOM_SEED", random.SystemRandom().randrange(10**6))))
    parser.add_argument("--keep", action="store_true", help="keep the folder of a training that fails")
    parser.add_argument("--go-on", action="store_true", help="go on after a failure")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if not (build / "tests/template_trainer").exists():
        print("the Trainer is not built")
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp())
    plays, kinds, left, seed, failures = Plays(build, folder), kinds_here(), arguments.kills, arguments.seed, 0
    try:
        while left > 0:
            try:
                left -= plays.play(seed, kinds, left)
            except (Finding, OSError, subprocess.SubprocessError) as error:
                failures += 1
                print(f"seed {seed}: {error}")
                for log in sorted((folder / f"play-{seed}").glob("launcher*.log")):
                    print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
                sys.stdout.flush()
                left -= 5
                if not arguments.go_on:
                    break
            if not arguments.keep:
                shutil.rmtree(folder / f"play-{seed}", ignore_errors=True)
            seed += 1
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.kills} kills, {failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
