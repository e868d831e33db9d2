#!/usr/bin/env python3
"""Holds the tables of docs/migrating_from_python.md against Python Accelerate: every public name of the original is in
a left column, every name in a left column is one of the original's, and every right column says what takes its place
(then accelerate/accelerate.h brings the names there, as check_docs.py checks) or why nothing does.

Public are, without a leading underscore: what `accelerate` and `accelerate.utils` import for their users, also what
they import only where a package such as DeepSpeed is installed; the classes and functions of each module
`accelerate.<module>`; the arguments, methods, properties and attributes of `Accelerator`. Sources are read, not
imported: the result does not depend on what else is installed.

usage: check_python_names.py [--list]; run it with the Python that has Accelerate installed.

Exits 1 and names each fault. With --list prints the names by kind.
"""
import ast
import importlib.util
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_docs  # noqa: E402

PAGE = check_docs.MIGRATING
NAME = re.compile(r"`([A-Za-z_]\w*)`")
# The kind of name that a section's left column lists; other sections are about free names.
KINDS = {"Arguments of `Accelerator`": "argument", "Properties of `Accelerator`": "member",
         "Methods of `Accelerator`": "member"}
# Sections whose left column is not about names of Python Accelerate.
FOREIGN = ("Schedules", "Command line")
STATES = re.compile(r"\blater\b|\bnot (?:in C\+\+|needed|types here)|\binside\b|\brefused\b|\bno call\b")


def public(names):
    return {name for name in names if not name.startswith("_")}


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path):
    """The names that a package's __init__.py takes from its modules, conditional ones too."""
    return public(alias.asname or alias.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)
                  if node.level > 0 for alias in node.names) - {"rich"}  # A module of accelerate.utils.


def defined(path):
    """The classes and functions of a module."""
    return public(node.name for node in parsed(path).body if isinstance(node, (ast.ClassDef, ast.FunctionDef)))


def of_accelerator(path):
    """Arguments, and members: methods, properties, and attributes that the constructor sets."""
    body = next(node for node in parsed(path).body if isinstance(node, ast.ClassDef) and node.name == "Accelerator").body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    constructor = next(node for node in functions if node.name == "__init__")
    arguments = public(argument.arg for argument in constructor.args.args) - {"self"}
    attributes = {node.attr for node in ast.walk(constructor) if isinstance(node, ast.Attribute)
                  if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"}
    return arguments, public({node.name for node in functions} | attributes)


def names_anywhere(package):
    """The classes and functions of all files, also inside classes: what a left column may speak of."""
    nodes = (node for path in package.rglob("*.py") for node in ast.walk(parsed(path)))
    return {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def names_of_the_original(package):
    """Sets of public names by kind."""
    free = imported(package / "__init__.py") | imported(package / "utils" / "__init__.py")
    for module in package.glob("*.py"):
        free |= defined(module)
    arguments, members = of_accelerator(package / "accelerator.py")
    return {"free": free, "argument": arguments, "member": members}


def rows(text):
    """Kind of name, line number, left and right cell of each row about names of Python Accelerate."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 2 and not section.startswith(FOREIGN) and cells[0] != "Python":
            yield KINDS.get(section, "free"), number, *cells


def faults(text, originals, anywhere):
    """What is wrong with the page `text`, given the public names by kind, and the names that there are anywhere."""
    listed = {kind: set() for kind in originals}
    for kind, number, left, right in rows(text):
        for name in NAME.findall(left):
            listed[kind].add(name)
            if name not in originals[kind] | anywhere:
                yield f"line {number}: Python Accelerate has no {name}"
        if not STATES.search(right) and not NAME.search(right):
            yield f"line {number}: neither a name of ours nor why there is none: {left}"
    for kind, names in originals.items():
        for name in sorted(names - listed[kind]):
            yield f"the {kind} name {name} of Python Accelerate is in no table"


def main():
    found = importlib.util.find_spec("accelerate")
    if found is None:
        sys.exit("this Python has no Accelerate: run scripts/setup and use .venv/bin/python")
    package = pathlib.Path(found.origin).parent
    originals = names_of_the_original(package)
    if "--list" in sys.argv[1:]:
        for kind, names in originals.items():
            print(f"{kind}: {' '.join(sorted(names))}")
        return
    text = PAGE.read_text(encoding="utf-8")
    found = [f"{PAGE.relative_to(check_docs.ROOT)}: {fault}"
             for fault in faults(text, originals, names_anywhere(package))]
    found += check_docs.unknown_names()
    print("\n".join([*found, f"{sum(map(len, originals.values()))} names checked, {len(found)} faults"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
