#!/usr/bin/env python3
"""Writes docs/flags.md, every command of `accelerate` with its flags, from what the commands say by --help.

usage: write_flags.py PROGRAM [--check]

With --check writes nothing, and exits 1 if the page is out of date.
"""
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "flags.md"
HEAD = """# Commands and flags

Every command of `accelerate` and its flags, as `--help` prints them. [The command line](command_line.md) and
[launching](launching.md) say what to use them for. `tools/write_flags.py` writes this page.

A default is in [brackets]. Every command has `-h, --help` too.
"""
ENTRY = re.compile(r"^ {2,6}(\S.*?)(?: {2,}(\S.*))?$")
GROUP = re.compile(r"^(\S[^:]*):$")


def help_of(program, words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def parsed(text):
    """Usage line, sentences, groups of entries, and what follows them."""
    lines = text.splitlines()
    usage, groups, sentences, after = lines[0].removeprefix("Usage: "), [], [], []
    at = 1
    while at < len(lines):
        line = lines[at]
        if match := GROUP.match(line):
            groups.append((match.group(1), []))
        elif groups and (match := ENTRY.match(line)) and not line.startswith(" " * 8):
            groups[-1][1].append([match.group(1), match.group(2) or ""])
        elif groups and line.startswith(" " * 8) and groups[-1][1]:
            groups[-1][1][-1][1] += " " + line.strip()
        elif line.strip():
            (after if groups else sentences).append(line.strip())
        at += 1
    return usage, " ".join(sentences), groups, "\n".join(after)


def cell(text):
    return re.sub(r"\s+", " ", text.strip()).replace("|", "\\|").replace("<", "&lt;")


def section(program, words):
    """The section of one command, and those of the commands in it."""
    usage, sentences, groups, after = parsed(help_of(program, words))
    out = [f"{'#' * min(4, 1 + len(words))} accelerate {' '.join(words)}", "", cell(sentences), "", "```text", usage, "```", ""]
    inner = []
    for name, entries in groups:
        if name == "Commands":
            inner = [entry[0].split()[0] for entry in entries]
        entries = [entry for entry in entries if entry[0] != "-h, --help"]
        if not entries:
            continue
        out += [f"**{name}**", "", "| | |", "|---|---|"]
        out += [f"| `{entry.replace('|', chr(92) + '|')}` | {cell(text)} |" for entry, text in entries] + [""]
    if after and not after.startswith("accelerate "):
        out += ["```text", after, "```", ""]
    for word in inner:
        out += section(program, [*words, word])
    return out


def page(program):
    _, _, groups, _ = parsed(help_of(program, []))
    commands = [entry.split()[0] for name, entries in groups if name != "Flags" for entry, _ in entries]
    lines = [line for command in commands for line in section(program, [command])]
    return HEAD + "\n" + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    text = page(sys.argv[1])
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/flags.md is out of date; run tools/write_flags.py {sys.argv[1]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
