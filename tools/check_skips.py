#!/usr/bin/env python3
"""Fails when a test was skipped for any reason but missing hardware.

usage: check_skips.py JUNIT_FILE   (what `ctest --output-junit` wrote)

A skip for want of hardware says so: the message of GTEST_SKIP has "no" or "needs" before one of HARDWARE.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

HARDWARE = re.compile(r"\b(no|needs)\b[^\n]*\b(CUDA|GPUs?|NCCL|cores?|NUMA|IPv6)\b")


def unexcused(junit):
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        if case.find("skipped") is None:
            continue
        said = case.findtext("system-out") or ""
        if not HARDWARE.search(said):
            yield case.get("name"), said.strip()


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    faults = list(unexcused(sys.argv[1]))
    for name, said in faults:
        print(f"{name} was skipped, but not for want of hardware:\n{said}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
