"""Reference pages of the front doors: one page a header, a section a class, an index of every name."""
import functools
import itertools
import os
import re

import headers
import site_map

ROOT = site_map.ROOT
DOORS = ["accelerate/accelerate.h", "accelerate/trainer.h", "accelerate/transformers.h"]
INCLUDE = re.compile(r'^#include "(accelerate/[^"]+)"', re.MULTILINE)
# What a room is about, for the index.
ROOMS = {"accelerator": "The loop", "data": "Data loading", "optim": "Optimizers and schedules", "parallel": "Data parallel and sharded",
         "comm": "Ranks and collectives", "tensor": "Nested values and models", "checkpoint": "Checkpoints", "watch": "Trackers, profiler, memory",
         "trainer": "The Trainer", "models": "Models", "tokenizers": "Tokenizers", "datasets": "Datasets", "hub": "The hub",
         "launch": "Configuration and launching", "base": "Errors, log, files", "formats": "Files of weights"}
CODE = re.compile(r"(`[^`]*`)")
WIDTH = 92


@functools.cache
def text_of(header):
    return (ROOT / header).read_text(encoding="utf-8")


@functools.cache
def reached():
    """Every header that a front door brings, and the doors that bring it."""
    doors = {}
    for door in DOORS:
        ahead, seen = [door], set()
        while ahead:
            header = ahead.pop()
            if header not in seen:
                seen.add(header)
                ahead += INCLUDE.findall(text_of(header))
        for header in seen - set(DOORS):
            doors.setdefault(header, []).append(door)
    return doors


@functools.cache
def contents():
    """Of each header with public names: its comment, and its items."""
    found = {header: headers.read(ROOT / header) for header in sorted(reached())}
    return {header: read for header, read in found.items() if any(item.kind != "part" for item in read[1])}


def document_of(header):
    return "api/" + header.removeprefix("accelerate/").removesuffix(".h").replace("transformers/", "")


# Document and anchor of each top-level name, and of (class, function). A name that several headers have is known by the
# first; OVERLOADS has the place of (document, name) in each. The first writing of the pages fills them, the
# second one leads links there.
PLACES, MEMBERS, OVERLOADS = {}, {}, {}


def note_place(name, document, anchor):
    PLACES.setdefault(name, (document, anchor))
    OVERLOADS.setdefault((document, name), (document, anchor))


def slug(words):
    """The anchor that MyST gives to a heading, as GitHub does."""
    return re.sub(r"[^\w\- ]", "", words.strip().lower().replace(" ", "-"))


def link(place, words, here):
    document, anchor = place
    target = "" if document == here else os.path.relpath(document, os.path.dirname(here) or ".") + ".md"
    return f"[{words}]({target}#{anchor})"


def escaped(text):
    return re.sub(r"([\\*_<>\[\]#|~$])", r"\\\1", text)


def prose(text, here):
    """A comment's words as Markdown: what it names leads to where that is."""
    parts = []
    for part in CODE.split(text):
        name = part.strip("`()")
        if part.startswith("`"):
            parts.append(link(PLACES[name], part, here) if name in PLACES else part)
            continue
        pieces = re.split(r"(\b[A-Z]\w*[a-z]\w*\b|\b[a-z]\w*_\w+\(\))", part)
        for at, piece in enumerate(pieces):
            bare = piece.removesuffix("()")
            known = at % 2 and bare in PLACES and (piece != bare or re.search(r"[a-z][A-Z]", piece))
            parts.append(link(PLACES[bare], f"`{piece}`", here) if known else escaped(piece))
    return "".join(parts)


def paragraphs(lines, here):
    """Comment lines as Markdown. Indented ones are programs or tables of plain text, and stay as they are."""
    out, words, block = [], [], []

    def end_words():
        if words:
            out.append(prose(" ".join(words), here))
            words.clear()

    def end_block():
        if block:
            language = "cpp" if any(re.search(r"[;{]", line) for line in block) else "text"
            out.append("\n".join([f"```{language}", *block, "```"]))
            block.clear()

    for line in lines:
        if line.startswith("  ") and not (words and not block and line.strip()[0:1].islower() and words[-1].lstrip().startswith("- ")):
            end_words()
            block.append(line[2:])
        elif not line.strip():
            end_words()
            end_block()
        else:
            end_block()
            if line.startswith("- "):
                end_words()
                words.append("- " + line[2:])
                continue
            words.append(line.strip())
    end_words()
    end_block()
    return "\n\n".join(out)


def split_at_commas(text):
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += {"(": 1, "<": 1, "{": 1, ")": -1, "}": -1}.get(sign, 0) - (sign == ">" and text[at - 1] != "-")
        if sign == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def laid_out(signature):
    """A signature as a program would have it: without attributes, in lines of WIDTH."""
    words = re.sub(r"\[\[[^\]]*\]\] ?", "", signature).replace("( ", "(")
    lines = []
    while match := re.match(r"template <", words):
        depth, at = 0, match.end() - 1
        while True:
            depth += {"<": 1}.get(words[at], 0) - (words[at] == ">" and words[at - 1] != "-")
            at += 1
            if depth == 0:
                break
        lines.append(words[:at])
        words = words[at:].strip()
    if len(words) > WIDTH and (match := re.search(r"\((?=.)", words)):
        end = words.rfind(")")
        inner = split_at_commas(words[match.end():end])
        if len(inner) > 1:
            lines.append(words[:match.end()])
            lines += [f"    {part}{',' if number + 1 < len(inner) else words[end:] + ';'}" for number, part in enumerate(inner)]
            return "\n".join(lines)
    return "\n".join([*lines, words + ";"])


def grouped(items):
    """Items with those that share the comment above: lists of one or more."""
    groups = []
    for item in items:
        if groups and item.joined and item.kind == groups[-1][0].kind == "function":
            groups[-1].append(item)
        elif groups and item.kind == "function" and item.name == groups[-1][0].name and not item.doc and groups[-1][0].kind == "function":
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def field_table(fields, here):
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for field in fields:
        declaration, _, default = field.signature.partition(" = ")
        kind = re.sub(r"\[\[[^\]]*\]\] ?", "", declaration).removesuffix(field.name).strip()
        rows.append(f"| `{field.name}` | {code(kind)} | {code(default)} | {cell(prose(' '.join(field.doc), here))} |")
    return "\n".join(rows)


def code(text):
    return f"`{cell(text)}`" if text else ""


def value_table(values, here):
    rows = ["| value | |", "|---|---|"]
    rows += [f"| `{value.signature}` | {cell(prose(' '.join(value.doc), here))} |" for value in values]
    return "\n".join(rows)


def functions_block(group, here):
    """The signatures of a group, then what they do."""
    lines = ["```cpp", *(laid_out(item.signature) for item in group), "```", ""]
    return "\n".join(lines) + paragraphs([line for item in group for line in item.doc], here) + "\n"


class Page:
    """One header's page."""

    def __init__(self, header):
        self.here = document_of(header)
        self.out, self.anchors = [], set()

    def heading(self, level, words):
        """Writes a headline; returns its anchor."""
        plain = slug(words.replace("`", "").replace("\\", ""))
        anchor = plain if plain not in self.anchors else next(
            name for number in itertools.count(1) if (name := f"{plain}-{number}") not in self.anchors)
        self.anchors.add(anchor)
        self.out.append(f"{'#' * level} {words}\n")
        return anchor

    def functions(self, group, level, owner=""):
        names = list(dict.fromkeys(item.name for item in group))
        anchor = self.heading(level, ", ".join(f"`{name}`" for name in names[:3]) + (", …" if len(names) > 3 else ""))
        for name in names:
            if owner:
                MEMBERS.setdefault((owner, name), (self.here, anchor))
            else:
                note_place(name, self.here, anchor)
        self.out.append(functions_block(group, self.here))

    def nested(self, item, level):
        self.out.append(f"```cpp\n{laid_out(item.signature)}\n```\n\n{paragraphs(item.doc, self.here)}\n")
        if item.kind == "enum":
            self.out.append(value_table(item.members, self.here) + "\n")
        elif item.members:
            self.members(item, level)

    def members(self, owner, level):
        fields = [item for item in owner.members if item.kind == "variable"]
        if fields:
            self.out.append(field_table(fields, self.here) + "\n")
        for group in grouped([item for item in owner.members if item.kind != "variable"]):
            first = group[0]
            if first.kind == "part":
                self.out.append(f"```{{rubric}} {first.name}\n```\n")
            elif first.kind == "function" and first.name in (owner.name, "operator==") and not first.doc:
                self.out.append(functions_block(group, self.here))
            elif first.kind == "function":
                self.functions(group, level + 1, owner.name)
            else:
                if first.members:
                    self.heading(level + 1, f"`{first.name}`")
                self.nested(first, level + 1)

    def top_level(self, items):
        for group in grouped([item for item in items if item.kind != "part"]):
            if group[0].kind == "function":
                self.functions(group, 2)
            else:
                anchor = self.heading(2, f"`{group[0].name}`")
                note_place(group[0].name, self.here, anchor)
                self.nested(group[0], 2)

    def text(self):
        return "\n".join(self.out)


def link_to_index(here, room):
    return f"[C++ names]({os.path.relpath('api/index', os.path.dirname(here))}.md#{slug(ROOMS[room])})"


def header_page(header):
    head, items = contents()[header]
    page = Page(header)
    short = header.removeprefix("accelerate/")
    doors = ", ".join(f"`{door}`" for door in reached()[header])
    page.out.append("---\norphan: true\n---\n")  # 190 more at the left of every page would help nobody, and take a minute.
    page.heading(1, escaped(short))
    page.out.append(f"{link_to_index(page.here, room_of(header))}\n\n{paragraphs(head, page.here)}\n")
    page.out.append(f"```cpp\n#include <{header}>\n```\n\nComes with {doors}.\n")
    page.top_level(items)
    return page.text()


def room_of(header):
    parts = header.split("/")
    return parts[2] if parts[1] == "transformers" else parts[1]


def is_first(header):
    """Whether a front door includes it by itself: what users call stands there."""
    return any(header in INCLUDE.findall(text_of(door)) for door in DOORS)


@functools.cache
def ordered_headers():
    rooms = list(ROOMS)
    return sorted(contents(), key=lambda header: (rooms.index(room_of(header)), not is_first(header), header))


def first_words(item):
    words = " ".join(item.doc)
    end = re.search(r"[.;](?: |$)", words)
    return words[:end.start() + 1] if end else words


def index_page():
    here = "api/index"
    out = ["# C++ names", "", "Every public name that the front doors bring, read from the headers. What stands in `namespace detail` is",
           "not for programs.", "", '<div class="name-filter" data-placeholder="A name, or a word of its sentence"></div>', ""]
    for room, title in ROOMS.items():
        rows = []
        for header in ordered_headers():
            if room_of(header) != room:
                continue
            seen = set()
            for item in contents()[header][1]:
                if item.kind != "part" and item.name not in seen:
                    seen.add(item.name)
                    place = OVERLOADS.get((document_of(header), item.name), PLACES[item.name])
                    rows.append(f"| {link(place, f'`{item.name}`', here)} | {item.kind} | {cell(prose(first_words(item), here))} |")
        if rows:
            out += [f"## {title}", "", "| name | | |", "|---|---|---|", *rows, ""]
    return "\n".join(out)


def write_all(tree):
    for header in ordered_headers():
        header_page(header)  # For PLACES.
    for header in ordered_headers():
        tree.write(document_of(header), header_page(header))
    tree.write("api/index", index_page())
