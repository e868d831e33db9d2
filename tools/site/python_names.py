"""The page "Coming from Python": every name of the original and what it is here, in one table with a filter."""
import os
import re

import api_pages
import site_map

PAGE = "docs/migrating_from_python.md"
ARGUMENTS = "docs/training_arguments.md"
KINDS = {"Arguments of `Accelerator`": "argument of Accelerator", "Properties of `Accelerator`": "property of Accelerator",
         "Methods of `Accelerator`": "method of Accelerator"}


def rows(text):
    """Section, left and right cell of each row of a table of two columns."""
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|") and len(cells) == 2 and cells[0] not in ("Python", "") and not cells[0].startswith("---"):
            yield section, *cells


def arguments(text):
    """The name of each row of the page of arguments."""
    for line in text.splitlines():
        if match := re.match(r"\| `(\w+)` \|", line):
            yield match.group(1)


def with_places(cell, here, kind):
    """`cell` with its names leading to the reference."""
    def led(match):
        name = match.group(1)
        place = None
        if kind.endswith("of Accelerator"):
            place = api_pages.MEMBERS.get(("Accelerator", name)) or api_pages.MEMBERS.get(("RankCalls", name))
        if kind == "argument of Accelerator":
            place = api_pages.PLACES.get("AcceleratorOptions")
        place = place or api_pages.PLACES.get(name)
        return api_pages.link(place, match.group(0), here) if place else match.group(0)

    parts = re.split(r"(\[[^\]]*\]\([^)]*\))", cell)  # Words of links stay as they are.
    return "".join(part if part.startswith("[") and part.endswith(")") else re.sub(r"`([A-Za-z_]\w*)`", led, part) for part in parts)


def page(tree):
    here = site_map.document("made:names")
    text = (site_map.ROOT / PAGE).read_text(encoding="utf-8")
    out = ["# Coming from Python", "",
           "Type a name of Python Accelerate or of `TrainingArguments`, and see what it is here. [Migrating from",
           f"Python]({tree.documents[PAGE]}.md) says how a loop changes.", "",
           '<div class="name-filter" data-placeholder="gather_for_metrics, fsdp, learning_rate …"></div>', "",
           "| Python | C++ | what it is |", "|---|---|---|"]
    for section, left, right in rows(text):
        kind = KINDS.get(section, section)
        right = tree.led(right, PAGE, here)
        out.append(f"| {tree.led(left, PAGE, here)} | {with_places(right, here, kind)} | {kind} |")
    target = os.path.relpath(tree.documents[ARGUMENTS], os.path.dirname(here) or ".") + ".md"
    for name in arguments((site_map.ROOT / ARGUMENTS).read_text(encoding="utf-8")):
        out.append(f"| `{name}` | [`TrainingArguments::{name}`]({target}) | argument of a training |")
    return "\n".join(out) + "\n"
