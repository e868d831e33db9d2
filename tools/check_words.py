#!/usr/bin/env python3
"""Counts the words of the sentences of Markdown pages.

usage: check_words.py [--check] [--verbose] [PAGE...]

Reads the named pages and all pages of the named folders; without names every page of the repository. Prints for each page
its sentences, the share of them over 25 words, and the longest one with its line; then its prose lines over 120 columns.
--verbose prints the long sentences. --check exits 1 if a page has more than 5 % of its sentences over 25 words, or a
prose line over 120 columns.

Of Chinese, two characters count as a word, and a paragraph stands on one line of any width: a line break between Chinese
characters would be shown as a blank, and is a fault.

Not prose: code blocks, tables, headings, HTML comments and the targets of links. Code in a line counts as one word. An
item of a list ends the sentence before it.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_WORDS, MOST_SHARE, MOST_COLUMNS = 25, 0.05, 120
HIDDEN = ("build/", ".venv", ".cache/")  # .venv-cuda too

# Blocks over several lines. The same number of line breaks takes their place.
BLOCKS = re.compile(r"^([ \t]*)(```|~~~).*?^\1\2[ \t]*$|<!--.*?-->", re.DOTALL | re.MULTILINE)
NO_PROSE = re.compile(r"\s*(?:\||#{1,6}\s|(?:-{3,}|\*{3,}|={3,})\s*$|<[^>]*>\s*$|\[[^\]]+\]:\s)")
ITEM = re.compile(r"^\s*(?:>\s?)*(?:[-*+]|\d+[.)])\s+")
QUOTE = re.compile(r"^\s*(?:>\s?)+")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\](?:\([^)\s]*(?:\s\"[^\"]*\")?\)|\[[^\]]*\])")
CODE = re.compile(r"(`+)(?:.*?)\1", re.DOTALL)
END = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9\x00])|[。！？][”’）」]*\s*")
CHINESE = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
BETWEEN_CHINESE = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n(?=[\u3000-\u9fff\uff00-\uffef])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|cf|vs|approx|Fig|No)\.[\"')\]]*\s+$")


def without_blocks(text):
    return BLOCKS.sub(lambda match: "\n" * match.group().count("\n"), text)


def paragraphs(text):
    """The numbered lines of each paragraph or item of `text`, which has no blocks."""
    lines = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        prose = line.strip() and not NO_PROSE.match(line)
        if lines and (not prose or ITEM.match(line)):
            yield lines
            lines = []
        if prose:
            lines.append((number, QUOTE.sub("", ITEM.sub("", line, count=1), count=1).strip()))


def plain(text):
    """`text` as it is read: code is one sign, links are their words; its line breaks stay."""
    text = CODE.sub(lambda match: "\x00" + "\n" * match.group().count("\n"), text)
    text = LINK.sub(lambda match: match.group(1), text)
    return re.sub(r"<[^>]*>|\*+|(?<!\w)_|_(?!\w)", "", text)


def words_of(sentence):
    others = CHINESE.sub(" ", sentence).split()
    return (len(CHINESE.findall(sentence)) + 1) // 2 + sum(re.search(r"[\w\x00]", word) is not None for word in others)


def sentences(text):
    """Line, words and text of each sentence of a page."""
    for lines in paragraphs(without_blocks(text)):
        rest, number, start = plain("\n".join(line for _, line in lines)), lines[0][0], 0
        ends = [match.end() for match in END.finditer(rest) if not ABBREVIATION.search(rest[:match.end()])]
        for end in [*ends, len(rest)]:
            sentence = rest[start:end]
            if words_of(sentence):
                yield number + rest[:start].count("\n"), words_of(sentence), sentence
            start = end


def wide_lines(text):
    """The numbers and columns of prose lines over MOST_COLUMNS."""
    for number, line in enumerate(without_blocks(text).splitlines(), 1):
        if len(line) > MOST_COLUMNS and not line.lstrip().startswith("|") and not CHINESE.search(line):
            yield number, len(line)


def broken_lines(text):
    """The numbers of lines that break a paragraph between Chinese characters."""
    for lines in paragraphs(without_blocks(text)):
        paragraph = "\n".join(line for _, line in lines)
        for match in BETWEEN_CHINESE.finditer(paragraph):
            yield lines[0][0] + paragraph[:match.start()].count("\n")


def pages_of(path):
    """A page itself, or the pages of a folder."""
    pages = path.rglob("*.md") if path.is_dir() else [path]
    return sorted(page for page in pages if path == page or not str(page.relative_to(path)).startswith(HIDDEN))


def name_of(page):
    return page.relative_to(ROOT) if page.is_relative_to(ROOT) else page


def report(page, verbose):
    """Prints what a page has; whether it keeps within the limits."""
    text = page.read_text(encoding="utf-8")
    found, wide, broken = list(sentences(text)), list(wide_lines(text)), list(broken_lines(text))
    long = [sentence for sentence in found if sentence[1] > MOST_WORDS]
    line, most, _ = max(found, key=lambda sentence: sentence[1], default=(0, 0, ""))
    share = len(long) / len(found) if found else 0
    print(f"{str(name_of(page)):44} {len(found):5} sentences {share:6.1%} over {MOST_WORDS} words, "
          f"longest {most} (line {line})")
    for number, words, sentence in long if verbose else ():
        print(f"  {number}: {words} words: {' '.join(sentence.replace(chr(0), '`…`').split())}")
    for number, columns in wide:
        print(f"  {number}: {columns} columns")
    for number in broken:
        print(f"  {number}: a line break between Chinese characters")
    return share <= MOST_SHARE and not wide and not broken, len(found), len(long)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE", default=[ROOT])
    options = parser.parse_args()
    pages = [page for name in options.pages for page in pages_of(name.resolve())]
    results = [report(page, options.verbose) for page in pages]
    good, found, long = (sum(column) for column in zip(*results))
    print(f"{len(results)} pages, {found} sentences, {long / max(found, 1):.1%} over {MOST_WORDS} words, "
          f"{len(results) - good} pages over a limit")
    return 1 if options.check and good < len(results) else 0


if __name__ == "__main__":
    sys.exit(main())
