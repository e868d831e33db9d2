"""What the originals report: the same line of JSON as programs/measure.h."""
import json


def status_kib(key):
    """A line of /proc/self/status that counts KiB, e.g. VmRSS (resident now) or VmHWM (at most so far)."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(key + ":"))


def report(**values):
    values.update(resident_kib=status_kib("VmRSS"), peak_kib=status_kib("VmHWM"))
    print(json.dumps(values), flush=True)
