#!/usr/bin/env python3
"""A cable between two network namespaces that delays what it carries, where the kernel has no netem.

usage: relay.py PID_A ADDRESS_A PID_B ADDRESS_B NAME DELAY_MS MEGABITS

Makes a TUN device NAME in the namespaces of two processes and hands packets over, each DELAY_MS late and no more than
MEGABITS a second. Packets are large (60,000 bytes), so that Python keeps up with a gigabit. Prints "up", runs until
it is killed.
"""
import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

PACKET_BYTES = 60000
QUEUE_SECONDS = 0.05  # What would wait longer for the rate is dropped.
CLONE_NEWNET, TUNSETIFF, IFF_TUN_WITHOUT_HEADER = 0x40000000, 0x400454CA, 0x1001
libc = ctypes.CDLL(None, use_errno=True)


def enter(path):
    with open(path, encoding="ascii") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")


def device_in(pid, address, name):
    own = f"/proc/self/fd/{os.open('/proc/self/ns/net', os.O_RDONLY)}"
    enter(f"/proc/{pid}/ns/net")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN_WITHOUT_HEADER))
    for words in (["address", "add", f"{address}/24", "dev", name], ["link", "set", name, "mtu", str(PACKET_BYTES), "up"]):
        subprocess.run(["ip", *words], check=True)
    enter(own)
    return device


def relay(one, other, delay, bytes_a_second):
    there = {one: other, other: one}
    free = dict.fromkeys(there, 0.0)  # When the cable has taken what came before, each way.
    late = {device: collections.deque() for device in there}  # (When it is due, packet), by sender.
    while True:
        now = time.monotonic()
        due = min((queue[0][0] for queue in late.values() if queue), default=now + 1)
        for device in select.select(list(there), [], [], max(0, due - now))[0]:
            packet = os.read(device, 1 << 16)
            now = time.monotonic()
            if free[device] - now < QUEUE_SECONDS:
                free[device] = max(free[device], now) + len(packet) / bytes_a_second
                late[device].append((free[device] + delay, packet))
        now = time.monotonic()
        for device, queue in late.items():
            while queue and queue[0][0] <= now:
                try:
                    os.write(there[device], queue.popleft()[1])
                except OSError:  # The other end is full; TCP sends it again.
                    pass


def main():
    pid_a, address_a, pid_b, address_b, name, delay, megabits = sys.argv[1:]
    ends = [device_in(pid_a, address_a, name), device_in(pid_b, address_b, name)]
    print("up", flush=True)
    relay(*ends, float(delay) / 1e3, float(megabits) * 1e6 / 8)


if __name__ == "__main__":
    main()
