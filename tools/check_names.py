#!/usr/bin/env python3
"""Checks that nothing is defined in two places under one name (the one-definition rule).

A linker takes one of two classes of the same name, or of two inline functions or variables, for both and says nothing; the
program then dies where the other one is used. What an anonymous namespace holds is a file's own and may share its name.

usage: check_names.py [ROOT]

Reads accelerate/, cli/ and tests/, where each folder of tests is a program of its own beside tests/support. Exits 1 and
names both places of each clash.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
# What may hold a brace that is none: comments, text, characters, directives. A digit separator is no character.
OPAQUE = re.compile(r"""(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])|//[^\n]*|/\*.*?\*/|R"([^\s(]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*\"|"""
                    r"""'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*""", re.DOTALL | re.MULTILINE)
ATTRIBUTE = re.compile(r"\[\[.*?\]\] ?|alignas\([^()]*\) ?")
CLASS = re.compile(r"(?:class|struct|union|enum(?: class| struct)?) ([\w:]+(?:<.*>)?)(?: final)?(?: :(?!:).*)?$")
FUNCTION = re.compile(r"((?:\w+(?:<[^()]*>)?::)*(?:operator ?[^(]+|operator\(\)|~?\w+))\((.*)\)([^()]*)$")
VARIABLE = re.compile(r"inline [^(]*?(\w+(?:<.*>)?)(?:\[\w*\])?(?: =.*)?$")


def without_opaque(text):
    """`text` with blanks for OPAQUE, its lines where they were."""
    return OPAQUE.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


def heads_of(text):
    """What ends in a brace or semicolon in a namespace that other files see: its scopes, its words, that sign, its offset."""
    scopes, inner, parentheses, start = [], 0, 0, 0
    for match in re.finditer(r"[{}();]", text):
        sign = match.group()
        if inner:  # A body: only where it ends matters.
            inner += {"{": 1, "}": -1}.get(sign, 0)
        elif sign in "()" or parentheses:
            parentheses += {"(": 1, ")": -1}.get(sign, 0)
            continue
        else:
            words = text[start:match.start()]
            head = " ".join(words.split())
            namespace = re.fullmatch(r"(?:inline )?namespace ?([\w:]*)|extern", head) if sign == "{" else None
            if namespace:
                scopes.append(namespace.group(1))  # "" is anonymous; None, of extern "C", is the scope around it.
            elif sign == "}":
                scopes.pop()
            else:
                inner = int(sign == "{")
                if head and "" not in scopes:
                    yield [s for s in scopes if s], head, sign, match.start() - len(words.lstrip())
        start = match.end()
    if scopes or inner or parentheses:
        raise ValueError("its braces or parentheses do not match")


def split_template(head):
    """The words "template <...>" of `head`, and the rest."""
    template = ""
    while head.startswith("template <"):
        depth = 0
        for sign in re.finditer(r"(?<!-)[<>]", head):
            depth += 1 if sign.group() == "<" else -1
            if depth == 0:
                break
        template, head = template + head[:sign.end()] + " ", head[sign.end():].strip()
    return template, head


def types_of(parameters):
    """`parameters` without their names and defaults: what tells overloads apart."""
    parts, depth = [""], 0
    for sign in parameters:
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return ", ".join(re.sub(r"(?<=[&* >])\s*\w+$", "", part.split(" = ")[0].strip()).strip() for part in parts)


def name_of(head, sign):
    """The name that `head`, which ends in `sign`, gives to what a linker takes any one of; None for all else."""
    template, head = split_template(ATTRIBUTE.sub("", head))
    if sign == "{" and (found := CLASS.match(head)):
        return found.group(1)
    if head.startswith(("static ", "concept ")) or not (template or re.match(r"(?:inline|constexpr)\b", head)):
        return None
    if sign == "{" and (found := FUNCTION.search(head)):
        return f"{template}{found.group(1)}({types_of(found.group(2))}){found.group(3).rstrip()}"
    found = VARIABLE.match(head)
    return found.group(1) if found else None


def definitions_of(path):
    """Pairs of a name and "path:line" of what `path` defines."""
    text = without_opaque(path.read_text(encoding="utf-8"))
    for scopes, head, sign, offset in heads_of(text):
        if name := name_of(head, sign):
            yield "::".join([*scopes, name]), f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, offset) + 1}"


def program_of(place):
    """The folder of tests of which `place` is a part; "" for what several programs share."""
    parts = place.split("/")
    return parts[1] if parts[0] == "tests" and parts[1] != "support" else ""


def clash(place, other):
    return not program_of(place) or not program_of(other) or program_of(place) == program_of(other)


def main():
    places, faults = collections.defaultdict(list), []
    files = [p for folder in ("accelerate", "cli", "tests") for e in ("*.h", "*.cpp") for p in sorted((ROOT / folder).rglob(e))]
    for path in files:
        try:
            for name, place in definitions_of(path):
                places[name].append(place)
        except (ValueError, IndexError) as error:
            faults.append(f"{path.relative_to(ROOT)}: cannot be read: {error}")
    for name, of_name in places.items():
        pairs = [(a, b) for i, a in enumerate(of_name) for b in of_name[i + 1:] if clash(a, b)]
        faults += [f"{b}: {name} is defined at {a} too; rename one, or put it into an anonymous namespace" for a, b in pairs]
    for fault in faults:
        print(fault)
    print(f"{len(files)} files checked, {sum(map(len, places.values()))} names, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
