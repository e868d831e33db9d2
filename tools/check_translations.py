#!/usr/bin/env python3
"""Compares the Chinese pages with the English ones that they translate.

usage: check_translations.py [--write] [ROOT]

README.zh.md translates README.md, and docs/zh/X.md translates docs/X.md. docs/zh/README.md and docs/zh/glossary.md have
no English counterpart. A page and its translation are compared section by section. Both must have the same

- levels of headings, list items, rows and cells of tables,
- code, but for its comments; names in `code` within sentences; numbers; links, which lead to Chinese pages where there are any,
- terms: where an English section has a term of the glossary, the Chinese one has its translation.

No Chinese page has a word that the glossary rejects. docs/zh/revisions.json says which English sections were translated. If
one has changed since, revise its translation, then run this with --write. Exits 1 and names each fault.
"""
import argparse
import collections
import hashlib
import json
import pathlib
import re
import sys

Pair = collections.namedtuple("Pair", "english chinese")
Section = collections.namedtuple("Section", "line heading text")
Term = collections.namedtuple("Term", "english chinese rejected")

WITHOUT_COUNTERPART = ("README.md", "glossary.md")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) (.*)$")
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
# A page's line that leads to its counterpart, and perhaps to other pages.
SWITCH = re.compile(r"^\[(?:English|中文)\]\(([^)]+)\)(?: · .*)?$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]*)\)")
NUMBER = re.compile(r"(\d+(?:[.,]\d+)*)(?:\s*((?:thousand|million|billion)\b|[万亿]))?")
MULTIPLES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000, "万": 10_000, "亿": 100_000_000}
# Where the comment of a line of code begins, by the language of the block.
CODE_COMMENT = {"cpp": r"\s*//.*", "diff": r"\s*//.*", "sh": r"\s+# .*", "cmake": r"\s*#.*", "": r"\s{3,}.*"}


def sections(text):
    """The parts of a page, each from its heading on."""
    found, in_block = [Section(1, "", "")], False
    for number, line in enumerate(text.splitlines(), 1):
        in_block ^= line.startswith("```")
        if not in_block and HEADING.match(line):
            found.append(Section(number, line, ""))
        else:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}{line}\n")
    return found[1:]


def anchor(heading):
    """A heading as GitHub makes a link's target of it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", HEADING.match(heading)[2])
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def without_comments(language, code):
    pattern = CODE_COMMENT.get(language, r"$^")
    return [re.sub(pattern, "", line).rstrip() for line in code.splitlines()]


def prose(text):
    """A section without blocks of code, HTML comments and the line to its counterpart."""
    return SWITCH.sub("", COMMENT.sub("", BLOCK.sub("", text)))


def words(text):
    """Prose as it is read: without code and the targets of links."""
    return LINK.sub("]", CODE.sub(" ", prose(text)))


def numbers(text):
    """The numbers of prose as texts; 202 million and 2.02 亿 are the same."""
    for digits, multiple in NUMBER.findall(words(text)):
        value = digits.replace(",", "")
        yield f"{round(float(value) * MULTIPLES[multiple]):,}" if multiple else digits


def rows(text):
    return [line for line in prose(text).splitlines() if line.startswith("|")]


class Tree:
    """The pages of a root, and which translates which."""

    def __init__(self, root):
        self.root = root
        chinese = [root / "README.zh.md", *sorted((root / "docs/zh").glob("*.md"))]
        self.chinese = [page for page in chinese if page.exists()]
        self.pairs = [Pair(self.english(page), page) for page in self.chinese
                      if page.parent == root or page.name not in WITHOUT_COUNTERPART]
        self.revisions_path = root / "docs/zh/revisions.json"
        self.glossary = root / "docs/zh/glossary.md"
        self.terms = list(self.read_terms())
        self.sections_by_page = {}

    def english(self, page):
        return self.root / "README.md" if page.parent == self.root else self.root / "docs" / page.name

    def name(self, page):
        return str(page.relative_to(self.root))

    def sections(self, page):
        if page not in self.sections_by_page:
            self.sections_by_page[page] = sections(page.read_text(encoding="utf-8"))
        return self.sections_by_page[page]

    def place(self, page, target):
        """What a link of `page` leads to, told by the English page and, on translated pages, the number of the heading."""
        if "://" in target:
            return target
        path, _, name = target.partition("#")
        path = (page.parent / path).resolve() if path else page.resolve()
        pair = next((pair for pair in self.pairs if path in (pair.english.resolve(), pair.chinese.resolve())), None)
        if pair is not None and name:
            anchors = [anchor(section.heading) for section in self.sections(path)]
            name = anchors.index(name) if name in anchors else f"{name}, which is no heading"
        path = pair.english.resolve() if pair else path
        inside = path.is_relative_to(self.root.resolve())
        return f"{path.relative_to(self.root.resolve()) if inside else path}#{name}"

    def read_terms(self):
        """The rows of the glossary: Chinese, English, rejected words, each divided by 、 or comma."""
        for row in self.glossary.read_text(encoding="utf-8").splitlines() if self.glossary.exists() else ():
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            if row.startswith("|") and len(cells) == 4 and not re.match(r"-+|中文", cells[0]):
                split = [[word.strip() for word in re.split("[、,]", cells[i]) if word.strip()] for i in (1, 0, 3)]
                yield Term(*split)


def differences(what, english, chinese):
    """A fault for what is on one side alone; the collections are of texts."""
    missing, more = sorted(set(english) - set(chinese)), sorted(set(chinese) - set(english))
    if missing:
        yield f"{what} missing in Chinese: {', '.join(missing)}"
    if more:
        yield f"{what} not in English: {', '.join(more)}"


def shape_faults(english, chinese):
    for what, count in (("list items", lambda text: len(re.findall(r"^\s*(?:[-*]|\d+\.) ", prose(text), re.MULTILINE))),
                        ("rows of tables", lambda text: len(rows(text))),
                        ("cells of tables", lambda text: sum(row.count("|") for row in rows(text)))):
        if count(english.text) != count(chinese.text):
            yield f"{count(english.text)} {what} in English, {count(chinese.text)} in Chinese"


def code_faults(english, chinese):
    blocks = [[(language, without_comments(language, code)) for language, code in BLOCK.findall(section.text)]
              for section in (english, chinese)]
    if len(blocks[0]) != len(blocks[1]):
        yield f"{len(blocks[0])} blocks of code in English, {len(blocks[1])} in Chinese"
    for one, other in zip(*blocks):
        if one != other:
            line = next((b for a, b in zip(one[1], other[1]) if a != b), other[1][-1:])
            yield f"a block of code differs, at: {line}"


def term_faults(tree, english, chinese):
    there, here = words(f"{english.heading}\n{english.text}"), words(f"{chinese.heading}\n{chinese.text}")
    for term in tree.terms:
        pattern = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in term.english)
        if re.search(rf"(?<![\w-])(?:{pattern})(?:e?s)?(?![\w-])", there, re.IGNORECASE):
            if not any(word.lower() in here.lower() for word in term.chinese):
                yield f"'{term.english[0]}' is not translated by {' or '.join(term.chinese)}"


def section_faults(tree, pair, english, chinese):
    yield from shape_faults(english, chinese)
    yield from code_faults(english, chinese)
    both = [section.heading + "\n" + section.text for section in (english, chinese)]
    yield from differences("code", *[[re.sub(r"\s+", " ", code) for code in CODE.findall(prose(text))] for text in both])
    yield from differences("numbers", *[list(numbers(text)) for text in both])
    yield from differences("links", *[[tree.place(page, target) for target in LINK.findall(prose(text))]
                                      for page, text in zip(pair, both)])
    yield from term_faults(tree, english, chinese)


def page_faults(tree, pair):
    """Place and text of each fault of a translation."""
    name = tree.name(pair.chinese)
    if not pair.english.exists():
        yield f"{name}: {tree.name(pair.english)} does not exist"
        return
    english, chinese = tree.sections(pair.english), tree.sections(pair.chinese)
    levels = [[section.heading.split()[0] for section in side] for side in (english, chinese)]
    if levels[0] != levels[1]:
        yield f"{name}: headings {' '.join(levels[1])}, in English {' '.join(levels[0])}"
        return
    for one, other in zip(english, chinese):
        for fault in section_faults(tree, pair, one, other):
            yield f"{name}:{other.line}: {other.heading.lstrip('# ')}: {fault}"


def link_faults(tree, page):
    """Links of a Chinese page to an English one that is translated."""
    for target in LINK.findall(SWITCH.sub("", page.read_text(encoding="utf-8"))):
        path = (page.parent / target.partition("#")[0]).resolve()
        for pair in tree.pairs:
            if "://" not in target and not target.startswith("#") and path == pair.english.resolve():
                yield f"{tree.name(page)}: {target} has a Chinese page, {tree.name(pair.chinese)}"


def wording_faults(tree, page):
    """Words that the glossary rejects."""
    plain = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    for number, line in enumerate(plain.splitlines(), 1):
        for term in tree.terms:
            for word in term.rejected:
                if word in CODE.sub(" ", line):
                    yield f"{tree.name(page)}:{number}: '{word}' is written {term.chinese[0]} ('{term.english[0]}')"


def switch_faults(tree, pair):
    for page, other in ((pair.chinese, pair.english), (pair.english, pair.chinese)):
        targets = SWITCH.findall(page.read_text(encoding="utf-8"))
        wanted = page == pair.chinese or page.parent == tree.root  # English pages in docs/ have no such line.
        if (wanted or targets) and [(page.parent / target).resolve() for target in targets] != [other.resolve()]:
            yield f"{tree.name(page)}: has no line that leads to {tree.name(other)}"


def revisions(tree):
    """By English page: its headings, and of each section what its text was."""
    return {tree.name(pair.english): [[section.heading, hashlib.sha256(section.text.encode()).hexdigest()[:12]]
                                      for section in tree.sections(pair.english)]
            for pair in tree.pairs if pair.english.exists()}


def revision_faults(tree):
    path = tree.revisions_path
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for page, found in revisions(tree).items():
        for heading, revision in found:
            if [heading, revision] not in known.get(page, []):
                yield (f"{page}: '{heading.lstrip('# ')}' has changed since it was translated; revise the Chinese page, then run "
                       "tools/check_translations.py --write")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    tree = Tree(options.root)
    if options.write:
        text = json.dumps(revisions(tree), indent=1, ensure_ascii=False)
        tree.revisions_path.write_text(text + "\n", encoding="utf-8")
    faults = [fault for pair in tree.pairs for fault in page_faults(tree, pair)]
    faults += [fault for pair in tree.pairs if pair.english.exists() for fault in switch_faults(tree, pair)]
    faults += [fault for page in tree.chinese for fault in link_faults(tree, page)]
    faults += [fault for page in tree.chinese if page != tree.glossary for fault in wording_faults(tree, page)]
    faults += revision_faults(tree)
    print("\n".join(faults))
    print(f"{len(tree.pairs)} translated pages, {len(tree.terms)} terms, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
