#!/usr/bin/env python3
"""Asks Hugging Face `tokenizers`, whose regular expressions are Oniguruma's, which code points each class matches.

Writes accelerate/transformers/tokenizers/unicode/properties.cpp, with the set of every name that \\p{…} takes, and regex_sets.txt
beside this script: patterns of one class, named or drawn at random, each with a checksum of what it matches.
Usage: regex_sets.py [--check]. With --check nothing is written; exit status 1 if a file differs.
"""
import pathlib
import random
import re

import numpy
import tokenizers
from tokenizers import Regex, decoders, pre_tokenizers

from unicode_tables import EVERYTHING, HERE, LIMIT, TABLES, array, ask_graphemes, checksum, write_or_check

SETS = TABLES.with_name("named_sets.cpp")
GOLDEN = HERE / "regex_sets.txt"
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()


def is_pattern(pattern):
    try:
        Regex(pattern)
    except Exception:  # noqa: BLE001: the package raises Exception itself.
        return False
    return True


def property_names():
    """The names of properties, each in small letters without spaces: strings of the package that \\p{…} takes."""
    library = next(pathlib.Path(tokenizers.__file__).parent.glob("*.so")).read_bytes()
    strings = sorted({found.decode() for found in re.findall(rb"(?<=\0)[a-z0-9]{1,60}(?=\0)", library)})
    return [name for name in strings if is_pattern(rf"\p{{{name}}}")]


def bounds_of(pattern):
    """Where the code points that `pattern` matches begin and end, in turns. Surrogates, which no text holds, go with U+D7FF."""
    kept = decoders.Replace(Regex(pattern), "").decode([EVERYTHING])
    inside = numpy.ones(LIMIT + 1, numpy.int8)
    inside[numpy.frombuffer(kept.encode("utf-32-le"), "<u4")] = 0
    return bounds_within(inside)


def bounds_within(inside):
    inside[0xD800:0xE000] = inside[0xD7FF]
    inside[LIMIT] = 0
    return numpy.flatnonzero(numpy.diff(inside, prepend=0)).tolist()


def count_clusters(text):
    """An X for each match of \\X of less than six bytes, and for each code point of longer ones, as ask_graphemes() wants it."""
    clusters = (cluster for cluster, _ in pre_tokenizers.Split(Regex(r"\X"), "isolated").pre_tokenize_str(text))
    return "".join(c if c == "\0" else "X" * (1 if len(c.encode()) < 6 else len(c)) for c in clusters)


def ask_clusters():
    """The sets of which \\X is made. Oniguruma's Unicode is older than that of the other parts, and knows no Indic conjuncts."""
    names = {"kGraphemeExtend": "extend", "kGraphemeSpacingMark": "spacing", "kGraphemePrepend": "prepend", "kGraphemeControl":
             "control", "kExtendedPictographic": "pictograph", "kHangulLead": "lead", "kHangulVowel": "vowel",
             "kHangulTrail": "trail"}
    for name, codes in ask_graphemes(count_clusters).items():
        inside = numpy.zeros(LIMIT + 1, numpy.int8)
        inside[sorted(codes)] = 1
        if name in names:
            yield f"\\{names[name]}", bounds_within(inside)
        else:
            assert not codes, name


# --- The tables -----------------------------------------------------------------------------------

def ask_sets():
    """The bounds by name, as a class in brackets knows the name. Sets that no pattern names have names with a backslash."""
    found = {name: bounds_of(rf"[\p{{{name}}}]") for name in property_names()}
    return found | {"\\w": bounds_of(r"\w")} | dict(ask_clusters())


def steps_of(bounds):
    return [bound - before for before, bound in zip([0, *bounds], bounds)]


def tables_text(sets):
    numbers, steps, begins = {}, [], [0]
    for name in sorted(sets):
        if numbers.setdefault(tuple(sets[name]), len(numbers)) == len(begins) - 1:
            steps += steps_of(sets[name])
            begins.append(len(steps))
    names = [f'{{"{name}",{numbers[tuple(sets[name])]}}}' for name in sorted(sets)]
    names = [row.replace("\\", "\\\\") for row in names]
    lines = [
        f"// Made by `python tests/reference/regex_sets.py` with tokenizers {tokenizers.__version__}.",
        "// Do not edit: run the script again.", "// clang-format off",
        '#include "accelerate/transformers/tokenizers/unicode/properties.h"', "", "namespace accelerate::detail::unicode {", "",
        *array("NamedSet", "named_sets", names), f"const std::size_t named_set_count = {len(names)};", "",
        *array("std::uint32_t", "set_begins", begins), *array("char32_t", "set_steps", steps),
        "}  // namespace accelerate::detail::unicode", ""]
    return "\n".join(lines)


# --- The golden file ------------------------------------------------------------------------------

def named_patterns(names):
    """Every class that has a name, alone; and in all spellings those that differ by spelling."""
    for name in names:
        yield rf"\p{{{name}}}"
    for name in ["word", "punct", "Han", "L", "In_Basic Latin", "Uppercase-Letter"]:
        yield from (rf"\P{{{name}}}", rf"\p{{^{name}}}", rf"\P{{^{name}}}", rf"[\P{{{name}}}]", rf"[\p{{^{name}}}]")
    for name in POSIX:
        yield from (rf"[[:{name}:]]", rf"[[:^{name}:]]", rf"[^[:{name}:]]", rf"[^[:^{name}:]]")
    for letter in "wWdDsShH":
        yield from (rf"\{letter}", rf"[\{letter}]", rf"[^\{letter}]", rf"[a\{letter}]", rf"[\{letter}&&\w]")


def escaped_letters():
    """Letters and digits behind a backslash, inside and outside of brackets; without what needs more characters."""
    for letter in map(chr, [*range(ord("0"), ord("9") + 1), *range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)]):
        if letter not in "cCMux":
            yield rf"[\{letter}]"
        if letter not in "123456789AbBcCGKMRuxXyYzZ":
            yield rf"\{letter}"


SPELLINGS = [
    r"[a-[b]]", r"[[a]-c]", r"[\d-]", r"[a-z-9]", r"[--a]", r"[!--]", r"[a-z--b]", r"[a\-z]", r"[&&a]", r"[a&&]", r"[^a&&b]",
    r"[a-&&b\-]", r"[a-c&&b-d&&c]", r"[a&b]", r"[]a]", r"[^]a]", r"[\x41-\x43]", r"[\x{41}-\u0043]", r"[\101\0]", r"\0", r"\07",
    r"[[:alpha]]", r"[:alpha:]", r"[[^a]&&[^b]]", r"[^[^a]]", r"[a[^b-\uffff]c]",
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[^\p{Han}\p{Hiragana}\p{Katakana}]", r"[\p{L}&&\p{Latin}&&[^a-z]]"]


def random_class(chance, depth=0):
    members = [lambda: chance.choice("abzAZ_09-\u00b2\u00e9\u4f60 "), lambda: rf"\{chance.choice('wWdDsShHntb')}",
               lambda: rf"\p{{{chance.choice(['L', 'Nd', 'Greek', 'Han', 'word', 'Alpha', '^P', 'Emoji'])}}}",
               lambda: rf"[:{chance.choice(['', '^'])}{chance.choice(POSIX)}:]",
               lambda: chance.choice(["a-f", "\u0100-\u04ff", "0-9", "\u4e00-\u9fff"]), lambda: "&&"]
    if depth < 3:
        members.append(lambda: random_class(chance, depth + 1))
    inside = "".join(chance.choice(members)() for _ in range(chance.randrange(1, 6)))
    return f"[{chance.choice(['', '', '^'])}{inside}]"


def random_patterns(count):
    chance = random.Random(41)
    drawn = (random_class(chance) for _ in range(10 * count))
    # Oniguruma refuses ranges that begin or end in a class.
    return [pattern for pattern in drawn if is_pattern(pattern)][:count]


def golden_patterns(sets):
    names = [name for name in sets if name.isalnum()]
    return [*named_patterns(names), *escaped_letters(), *SPELLINGS, *random_patterns(300)]


def golden_text(sets):
    lines = [f"# What tokenizers {tokenizers.__version__} answered to regex_sets.py."]
    for pattern in golden_patterns(sets):
        lines.append(f"{checksum(bounds_of(pattern))} {pattern}")
    return "\n".join([*lines, ""])


def files():
    sets = ask_sets()
    return [(SETS, tables_text(sets)), (GOLDEN, golden_text(sets))]


if __name__ == "__main__":
    write_or_check(__doc__, files)
