#!/usr/bin/env python3
"""Checks that docs/errors.md explains every error: the names of accelerate/base/error_name.h and those of the types.

Exits 1 and names each fault: a name without a section, a section without a name in the code, a section that does not
say cause and cure, a name that nothing throws. `--skeleton NAME` prints a section to fill in.

usage: check_errors.py [ROOT | --skeleton NAME]
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, NAMES = "docs/errors.md", "accelerate/base/error_name.h"
PREFIX = "accelerate.error/"
CONSTANT = re.compile(r'ErrorName\s+(k\w+)\s*\{\s*"([^"]*)"\s*\}')
USE = re.compile(r"\berror_name::(k\w+)")
KIND = re.compile(r'kind\(\) const noexcept(?: override)? \{\s*return "(\w+)"')
HEADING = re.compile(r"^#{2,6} (.*)$", re.MULTILINE)
# What each section has: a paragraph, or an item, that begins with these words.
PARTS = ("**Cause.**", "**Cure.**")


def sources(root):
    for folder in ("accelerate", "cli"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path, path.read_text(encoding="utf-8")


def constant_of(name):
    """kRankLate for rank-late."""
    return "k" + "".join(word.capitalize() for word in name.split("-"))


def name_of_type(kind):
    """The name of a type's errors, as Error::name() makes it."""
    words = kind.removesuffix("Error") or kind
    return re.sub(r"(?<!^)(?=[A-Z])", "-", words).lower()


def sections(text):
    """Heading and text of each section whose heading is a name."""
    parts = HEADING.split(text)
    for heading, body in zip(parts[1::2], parts[2::2]):
        if PREFIX in heading:
            yield heading.strip().strip("`"), body


def names_in_code(root):
    """Each name of the code, and whether it needs a throw site: a type's name has its type."""
    table = (root / NAMES).read_text(encoding="utf-8")
    situations = {name: constant for constant, name in CONSTANT.findall(table)}
    kinds = {kind for _, text in sources(root) for kind in KIND.findall(text)}
    return situations, {PREFIX + name_of_type(kind) for kind in kinds}


def faults(root=ROOT):
    situations, types = names_in_code(root)
    used = {constant for path, text in sources(root) if path != root / NAMES for constant in USE.findall(text)}
    for name, constant in situations.items():
        if not re.fullmatch(re.escape(PREFIX) + r"[a-z0-9]+(-[a-z0-9]+)*", name):
            yield f"{NAMES}: '{name}' is no name: {PREFIX}words-like-these"
        elif constant != constant_of(name.removeprefix(PREFIX)):
            yield f"{NAMES}: {constant} is called '{name}'; its constant is {constant_of(name.removeprefix(PREFIX))}"
        if constant not in used:
            yield f"{NAMES}: nothing throws {constant}: remove it, or pass it where the situation is found"
    known, found = {*situations, *types}, []
    for name, body in sections((root / PAGE).read_text(encoding="utf-8")):
        found.append(name)
        if name not in known:
            yield f"{PAGE}: no error is called {name}: is it misspelt, or was the name removed?"
        for part in PARTS if name in situations else ():
            if len(body.partition(part)[2].split("\n\n")[0].split()) < 3:
                yield f"{PAGE}: {name} says nothing under {part}"
    for name in sorted(known - set(found)):
        yield f"{PAGE}: {name} has no section: {pathlib.Path(__file__).name} --skeleton {name.removeprefix(PREFIX)}"
    for name in sorted({name for name in found if found.count(name) > 1}):
        yield f"{PAGE}: {name} has two sections"


def skeleton(name):
    return f"### {PREFIX}{name}\n\nWhat it means.\n\n**Cause.** What usually leads there.\n\n**Cure.** A command, or three lines of program.\n"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else ROOT
    if sys.argv[1:2] == ["--skeleton"]:
        print(skeleton(sys.argv[2]))
        return 0
    found = list(faults(root))
    for fault in found:
        print(fault)
    situations, types = names_in_code(root)
    print(f"{len(situations)} situations and {len(types)} types checked, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
