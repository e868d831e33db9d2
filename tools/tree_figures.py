#!/usr/bin/env python3
"""Prints figures of the tree: rooms, files, lines of code and comments, arrows between rooms, small headers, and which
names of headers occur twice.

usage: tree_figures.py [--headers] [ROOT]

With --headers lists the headers of at most 30 lines, and those that only one other unit includes. A line of code is one
that is neither empty nor a comment alone, as cloc counts it. A unit is a header and the source of its name.
"""
import collections
import pathlib
import re
import sys

ARGUMENTS = [a for a in sys.argv[1:] if not a.startswith("--")]
ROOT = pathlib.Path(ARGUMENTS[0]).resolve() if ARGUMENTS else pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:accelerate|cli)/[^"]+)"', re.MULTILINE)
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|R"\((?:.|\n)*?\)"|(//[^\n]*|/\*(?:.|\n)*?\*/)')
SMALL = 30


def sources():
    """The library and the command line; declarations that stand in for Gloo's headers are not ours."""
    return sorted(p for folder in ("accelerate", "cli") for e in ("*.h", "*.cpp") for p in (ROOT / folder).rglob(e)
                  if "gloo_headers" not in p.parts and "project_template" not in p.parts)


def lines_of(text):
    """Lines of code, and of comments alone."""
    bare = COMMENT.sub(lambda m: m[0] if m[1] is None else "\n" * m[1].count("\n"), text)
    filled = [bool(line.strip()) for line in text.splitlines()]
    code = [bool(line.strip()) for line in bare.splitlines()]
    return sum(code), sum(filled) - sum(code)


def unit_of(name):
    return str(pathlib.PurePath(name).with_suffix("")).removesuffix("_impl")


def room_of(name):
    """accelerate/<room>, one room of the library; what Transformers' room holds counts by its folders; cli is one."""
    parts = pathlib.PurePath(name).parts
    if parts[0] == "cli" or len(parts) < 3:
        return parts[0]
    return "/".join(parts[1:3]) if parts[1] == "transformers" and len(parts) > 3 else parts[1]


def main():
    paths = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in sources()}
    code = comments = 0
    arrows, users = set(), collections.defaultdict(set)
    for name, text in paths.items():
        more = lines_of(text)
        code, comments = code + more[0], comments + more[1]
        for target in INCLUDE.findall(text):
            users[target].add(unit_of(name))
            arrows.add((room_of(name), room_of(target)))
    headers = [n for n in paths if n.endswith(".h")]
    small = [n for n in headers if len(paths[n].splitlines()) <= SMALL]
    lone = [n for n in headers if len(users[n] - {unit_of(n)}) == 1]
    twice = [n for n, count in collections.Counter(pathlib.PurePath(n).name for n in headers).items() if count > 1]
    rooms = {room_of(n) for n in paths} - {"accelerate"}
    print(f"rooms                          {len(rooms)}")
    print(f"folders                        {len({pathlib.PurePath(n).parent for n in paths})}")
    print(f"arrows between rooms           {len([a for a in arrows if a[0] != a[1] and 'accelerate' not in a])}")
    print(f"files                          {len(paths)}")
    print(f"lines of code                  {code}")
    print(f"lines of comments              {comments} ({100 * comments / (code + comments):.1f} %)")
    print(f"headers                        {len(headers)}")
    print(f"headers of <= {SMALL} lines         {len(small)} ({100 * len(small) / len(headers):.1f} %)")
    print(f"headers with one other user    {len(lone)}")
    print(f"names of headers that repeat   {len(twice)} ({', '.join(sorted(twice))})")
    if "--headers" in sys.argv:
        for name in sorted(set(small) | set(lone)):
            others = sorted(users[name] - {unit_of(name)})
            print(f"{len(paths[name].splitlines()):4} {name}  <- {', '.join(others) if len(others) < 3 else len(others)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
