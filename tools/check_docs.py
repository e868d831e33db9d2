#!/usr/bin/env python3
"""Checks the documentation: every relative link in a .md file leads to a file, and the difference that
examples/README.md shows between the two programs of examples/cv is their difference; each C++ name in the tables of
docs/migrating_from_python.md comes with accelerate/accelerate.h.

Exits 1 and names each fault. With --write puts the difference into examples/README.md.
"""
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIGRATING = ROOT / "docs" / "migrating_from_python.md"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
# A C++ name in the right column of the tables of names. Commands are words with blanks, and do not match.
NAME = re.compile(r"`([A-Za-z_]\w*)`")
INCLUDE = re.compile(r'^#include "(accelerate/[^"]+)"', re.MULTILINE)
# The difference stands between these two lines of examples/README.md.
BEGIN, END = "<!-- examples/cv: begin -->", "<!-- examples/cv: end -->"


def pages():
    hidden = ("build/", ".venv", ".cache/")  # .venv-cuda too.
    return sorted(p for p in ROOT.rglob("*.md") if not str(p.relative_to(ROOT)).startswith(hidden))


def dead_links():
    for page in pages():
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for target in LINK.findall(line):
                if "://" not in target[0] and not (page.parent / target[0]).exists():
                    yield f"{page.relative_to(ROOT)}:{number}: {target[0]} does not exist"


def front_door():
    """The text of accelerate/accelerate.h and of all our headers that it includes."""
    texts, ahead = {}, ["accelerate/accelerate.h"]
    while ahead:
        header = ahead.pop()
        if header not in texts:
            texts[header] = (ROOT / header).read_text(encoding="utf-8")
            ahead += INCLUDE.findall(texts[header])
    return "\n".join(texts.values())


def unknown_names(text=MIGRATING.read_text(encoding="utf-8")):
    """What the right columns of `text` name and accelerate/accelerate.h does not bring."""
    known = set(re.findall(r"\w+", re.sub(r"//.*", "", front_door())))
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.strip().strip("|").split(" | ")
        if not line.startswith("|") or len(cells) != 2:
            continue
        right = re.split(r"not (?:in C|here|needed|types)|later", cells[1])[0]
        for name in NAME.findall(right):
            if name not in known:
                yield f"{MIGRATING.relative_to(ROOT)}:{number}: accelerate/accelerate.h does not bring {name}"


def body(name):
    """The lines of the function that trains, `run`, and of what it calls."""
    text = (ROOT / "examples" / "cv" / name).read_text(encoding="utf-8")
    return text[text.index("/// The share of"):text.index("}  // namespace")].rstrip().splitlines()


def difference():
    lines = difflib.unified_diff(body("plain.cpp"), body("accelerated.cpp"), n=100, lineterm="")
    return "\n".join(["```diff", *list(lines)[3:], "```"])


def with_difference(readme):
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + difference() + "\n" + END + rest.split(END)[1]


def main():
    readme = ROOT / "examples" / "README.md"
    text = readme.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        readme.write_text(with_difference(text), encoding="utf-8")
        return 0
    faults = [*dead_links(), *unknown_names()]
    if with_difference(text) != text:
        faults.append("examples/README.md: the difference of examples/cv is out of date; run tools/check_docs.py --write")
    for fault in faults:
        print(fault)
    print(f"{len(pages())} pages checked, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
