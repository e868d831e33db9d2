#!/usr/bin/env python3
"""Fails when a test was skipped for any reason but missing hardware, a kernel that permits too little, or Chromium,
which takes hundreds of megabytes.

usage: check_skips.py JUNIT_FILE RESULTS   (what `ctest --output-junit` wrote; the folder where GoogleTest wrote)

A skip for want of hardware says so: the message of GTEST_SKIP has "no" or "needs" before one of HARDWARE.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

HARDWARE = re.compile(r"\b(no|needs)\b[^\n]*\b(CUDA|GPUs?|NCCL|cores?|NUMA|IPv6|AVX-512|Chromium|network namespaces|virtual cables)\b")


def skips(file):
    """The name and the message of each test that FILE, of ctest or of GoogleTest, says was skipped."""
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            said = " ".join([skipped.get("message") or "", skipped.text or "", case.findtext("system-out") or ""])
            yield f"{case.get('classname')}.{case.get('name')}", said.strip()


def unexcused(junit, results):
    for file in [junit, *sorted(pathlib.Path(results).glob("*.xml"))]:
        for name, said in skips(file):
            if not HARDWARE.search(said):
                yield name, said


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    faults = list(unexcused(*sys.argv[1:]))
    for name, said in faults:
        print(f"{name} was skipped, but not for want of hardware:\n{said}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
