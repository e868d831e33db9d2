"""Two hosts on one machine: network namespaces that a cable joins, which carries so many bits a second each way."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

from harness import FOLDER, BenchmarkError

TOOLS = ("ip", "tc", "nsenter", "unshare", "setpriv")
CABLE = "cable0"  # On both hosts.
ADDRESSES = ("10.98.0.1", "10.98.0.2")


def why_not():
    """Why this process may have none; empty if it may."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"there is no `{missing[0]}` here"
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "" if made.returncode == 0 else "network namespaces may not be made here (this needs root)"


def ip(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"`{' '.join(map(str, words))}` failed: {done.stderr.strip()}")


class TwoHosts:
    def __init__(self, keepers):
        self.keepers = keepers

    def on(self, host):
        """The words before a command that is to run on host 0 or 1."""
        return ["nsenter", "--target", str(self.keepers[host].pid), "--net"]

    def sent_bytes(self, host):
        """What the cable has carried from a host since it was laid, headers included."""
        said = subprocess.run([*self.on(host), "ip", "-json", "-stats", "link", "show", CABLE],
                              capture_output=True, check=True).stdout
        return json.loads(said)[0]["stats64"]["tx"]["bytes"]


def is_in_namespace_of_its_own(process):
    return os.readlink(f"/proc/{process.pid}/ns/net") != os.readlink("/proc/self/ns/net")


def lay_cable(hosts, megabits):
    ip(*hosts.on(0), "ip", "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", hosts.keepers[1].pid)
    for host, address in enumerate(ADDRESSES):
        ip(*hosts.on(host), "ip", "address", "add", f"{address}/24", "dev", CABLE)
        ip(*hosts.on(host), "ip", "link", "set", CABLE, "up")
        ip(*hosts.on(host), "tc", "qdisc", "add", "dev", CABLE, "root", "tbf", "rate", f"{megabits}mbit",
           "burst", "256kb", "latency", "50ms")


def lay_long_cable(hosts, megabits, delay_ms):
    """Returns the process that carries packets over it."""
    ends = [word for keeper, address in zip(hosts.keepers, ADDRESSES) for word in (keeper.pid, address)]
    command = [sys.executable, FOLDER / "relay.py", *ends, CABLE, delay_ms, megabits]
    relay = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if relay.stdout.readline() != b"up\n":
        raise BenchmarkError("the relay between two hosts did not start")
    return relay


@contextlib.contextmanager
def two_hosts(megabits, delay_ms=0):
    """Two hosts whose cable carries `megabits` a second each way, each packet `delay_ms` late. They end with the
    process that this one keeps for each."""
    started = []
    try:
        for _ in ADDRESSES:
            started.append(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"],
                                            stdin=subprocess.DEVNULL))
        while not all(is_in_namespace_of_its_own(keeper) for keeper in started):
            time.sleep(0.01)
        hosts = TwoHosts(list(started))
        for host in range(len(ADDRESSES)):
            ip(*hosts.on(host), "ip", "link", "set", "lo", "up")
        if delay_ms:
            started.append(lay_long_cable(hosts, megabits, delay_ms))
        else:
            lay_cable(hosts, megabits)
        yield hosts
    finally:
        for process in started:
            process.kill()
            process.wait()
