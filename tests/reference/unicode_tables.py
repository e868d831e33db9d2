#!/usr/bin/env python3
"""Asks Hugging Face `tokenizers` what it knows of every code point.

Writes accelerate/transformers/tokenizers/unicode/tables.cpp, and unicode_tables.txt beside this script: a checksum of
each property, and random strings in the four normal forms with the origin of each character.
Usage: unicode_tables.py [--check]. With --check nothing is written; exit status 1 if a file differs.
"""
import argparse
import functools
import pathlib
import random
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
TABLES = HERE.parents[1] / "accelerate" / "tokenizers" / "unicode" / "tables.cpp"
GOLDEN = HERE / "unicode_tables.txt"

LIMIT = 0x110000
SURROGATES = range(0xD800, 0xE000)
HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)
CODES = [code for code in range(LIMIT) if code not in SURROGATES]
EVERYTHING = "".join(map(chr, CODES))
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()
# The order of enum Property in properties.h.
PROPERTIES = (
    "kRegexSpace kWordOfWhitespace kSpaceOfWhitespace kWhiteSpace kNumeric kPunctuation "
    "kBertPunctuation kBertSpace kBertRemoved kBertToSpace kBertCjk kBertMark kCombiningMark kNmtRemoved "
    "kNmtToSpace kGraphemeExtend kGraphemePrepend kGraphemeControl kExtendedPictographic kGraphemeSpacingMark "
    "kHangulLead kHangulVowel kHangulTrail kIndicConsonant kIndicLinker kIndicExtend kComposesBehind").split()
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
BLOCK = 32  # Entries of a block in each stage of a table.


# --- Pre-tokenizers -------------------------------------------------------------------------------

def matched_by(pattern):
    """The code points that a regular expression matches: those between the pieces that remain."""
    pieces = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(EVERYTHING)
    kept = bytearray(len(CODES))
    for _, (begin, end) in pieces:
        kept[begin:end] = b"\1" * (end - begin)
    return {code for code, stays in zip(CODES, kept) if not stays}


def behind_a(pre_tokenizer, last=""):
    """What a pre-tokenizer makes of the letter a and each code point behind it: three sets, those that it
    drops, those that it isolates, and those that stay in one piece with the letter."""
    period = 2 + len(last)
    text = "".join("a" + c + last for c in EVERYTHING)
    fate = bytearray(len(CODES))
    for _, (begin, end) in pre_tokenizer.pre_tokenize_str(text):
        index, at = divmod(begin, period)
        if at == 1 and end == begin + 1:
            fate[index] = 1
        for joined in range(index, (end - 1) // period + 1):
            if begin <= joined * period and joined * period + 2 <= end:
                fate[joined] = 2
    return [{code for code, got in zip(CODES, fate) if got == wanted} for wanted in range(3)]


def ask_pre_tokenizers():
    spaces, others, words = behind_a(pre_tokenizers.Whitespace(), " ")
    bert_spaces, bert_punctuation, _ = behind_a(pre_tokenizers.BertPreTokenizer())
    return {
        "kRegexSpace": matched_by(r"\s"), "kWordOfWhitespace": words, "kSpaceOfWhitespace": spaces,
        "kWhiteSpace": behind_a(pre_tokenizers.WhitespaceSplit())[0],
        "kNumeric": behind_a(pre_tokenizers.Digits(individual_digits=True))[1],
        "kPunctuation": behind_a(pre_tokenizers.Punctuation())[1],
        "kBertPunctuation": bert_punctuation, "kBertSpace": bert_spaces}


def ask_categories():
    of = {code: CATEGORIES.index("Cs") for code in SURROGATES}
    for index, name in enumerate(CATEGORIES):
        for code in matched_by(rf"\p{{{name}}}"):
            assert of.setdefault(code, index) == index, f"two categories: U+{code:04X}"
    return [of[code] for code in range(LIMIT)]


def ask_scripts():
    """A number for each code point; 0 never splits, and others are numbered as they first appear."""
    split = pre_tokenizers.UnicodeScripts().pre_tokenize_str
    splits = lambda text: len(split(text)) > 1
    own = [c for c in EVERYTHING if splits("A" + c) or splits("\u03b1" + c)]
    scripts, firsts = [0] * LIMIT, []
    for piece, _ in split("".join(own)):
        number = next((i for i, first in enumerate(firsts) if not splits(first + piece[0])), len(firsts))
        if number == len(firsts):
            firsts.append(piece[0])
        for c in piece:
            scripts[ord(c)] = number + 1
    return scripts


# --- Normalizers ----------------------------------------------------------------------------------

def answers(normalizer):
    """The normal form of each code point that has another one than itself."""
    pairs = ((code, normalizer.normalize_str(chr(code))) for code in CODES)
    return {code: text for code, text in pairs if text != chr(code)}


def ask_normalizers(decomposed):
    bert = functools.partial(normalizers.BertNormalizer, clean_text=False, handle_chinese_chars=False,
                             strip_accents=False, lowercase=False)
    clean, nmt = answers(bert(clean_text=True)), answers(normalizers.Nmt())
    cjk = answers(bert(handle_chinese_chars=True))
    accents = answers(bert(strip_accents=True))
    assert all(text in ("", " ") for text in [*clean.values(), *nmt.values()])
    assert all(text == f" {chr(code)} " for code, text in cjk.items())
    assert all(text == "" or code in decomposed or code in HANGUL_SYLLABLES for code, text in accents.items())
    gone = lambda found, text="": {code for code, got in found.items() if got == text}
    return {"kBertRemoved": gone(clean), "kBertToSpace": gone(clean, " "), "kBertCjk": set(cjk),
            "kBertMark": gone(accents), "kCombiningMark": gone(answers(normalizers.StripAccents())),
            "kNmtRemoved": gone(nmt), "kNmtToSpace": gone(nmt, " ")}


def ask_combining_classes(decomposed):
    """Finds marks by what NFD puts in order, and classes by comparison with one mark of each class."""
    nfd = normalizers.NFD().normalize_str
    swaps = lambda first, second: nfd("a" + first + second) == "a" + second + first
    # Nothing shows the class of a mark that is always decomposed.
    classes = [unicodedata.combining(chr(code)) if code in decomposed else 0 for code in range(LIMIT)]
    marks = [code for code in CODES if code not in decomposed and code not in HANGUL_SYLLABLES and
             (swaps(chr(code), "\u0334") or swaps("\u0345", chr(code)))]
    known = {}
    for code in marks:
        known.setdefault(unicodedata.combining(chr(code)), chr(code))
    known.pop(0, None)
    for code in marks:
        others = [(its, other) for its, other in known.items() if other != chr(code)]
        fits = [value for value in known if all(
            swaps(chr(code), other) == (value > its) and swaps(other, chr(code)) == (its > value)
            for its, other in others)]
        fits = fits if len(fits) < 2 else [unicodedata.combining(chr(code))]  # The only one of its class.
        assert len(fits) == 1, f"no class for U+{code:04X}"
        classes[code] = fits[0]
    return classes


def ask_compositions(decomposed):
    nfc = normalizers.NFC().normalize_str
    pairs = {}
    for code, text in decomposed.items():
        first = nfc(text[:-1])
        if len(first) == 1 and nfc(first + text[-1]) == chr(code):
            pairs[ord(first), ord(text[-1])] = code
    return pairs


def ask_mappings():
    """Full decompositions without Hangul syllables, which C++ computes, and lower case."""
    found = {"nfd": answers(normalizers.NFD()), "nfkd": answers(normalizers.NFKD())}
    for form in found.values():
        for code in HANGUL_SYLLABLES:
            assert form.pop(code) == unicodedata.normalize("NFD", chr(code))
    found["lower"] = answers(normalizers.Lowercase())
    return found


# --- Grapheme clusters ----------------------------------------------------------------------------

def counting_normalizer():
    """A Precompiled that writes X for each grapheme cluster of less than six bytes, and for each code
    point of longer ones. It maps every first byte; U+0000 stays. The format: a Darts double array,
    then strings that end in NUL."""
    children, leaves = 256, 512  # Positions that a bit of the root's units switches between.
    units = [0] * 1024
    units[0] = children << 10
    for byte in range(1, 256):
        at = children ^ byte
        units[at] = byte | 1 << 8 | (at ^ leaves) << 10
    units[leaves] = 1 << 31
    raw = struct.pack(f"<{len(units)}I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(raw)) + raw + b"X\0")


def ask_graphemes(count=None):
    """Each question is a string whose number of X tells whether a code point joins its neighbours.
    U+0000 separates questions, since it stands alone and stays. `count` writes an X as counting_normalizer() does."""
    count = count or counting_normalizer().normalize_str
    candidates = CODES[1:]

    def joins(before, after, number, among=candidates):
        questions = "\0".join(before + chr(code) + after for code in among)
        return {code for code, got in zip(among, count(questions).split("\0")) if len(got) == number}

    extend = joins("a", "", 1)
    extending = sorted(extend)
    prepend = joins("", "a", 1)
    control = {0} | joins("", "\u0300\u0301", 2)
    plain = [code for code in candidates if code not in extend | prepend | control]
    spacing = joins("\u00a9", "\u200d\u00a9\u0300", 4, extending)
    leads = joins("", "\u1100\u0300", 3, plain)
    before_vowel = joins("", "\u1160\u0300", 3, plain)
    before_trail = joins("", "\u11a8\u0300", 3, plain)
    syllables = set(HANGUL_SYLLABLES)
    vowels = before_vowel - leads - syllables
    trails = before_trail - before_vowel - syllables
    assert syllables == (before_trail | before_vowel) & syllables
    linkers = joins("\u0915", "\u0915\u0300", 4, extending)
    return {
        "kGraphemeExtend": extend, "kGraphemePrepend": prepend, "kGraphemeControl": control,
        "kExtendedPictographic": joins("\u00a9\u200d", "", 3, plain), "kGraphemeSpacingMark": spacing,
        "kHangulLead": leads, "kHangulVowel": vowels, "kHangulTrail": trails,
        "kIndicConsonant": joins("", "\u094d\u0915\u0300", 4, plain),
        "kIndicLinker": linkers, "kIndicExtend": joins("\u0915", "\u094d\u0915\u0300", 5, extending) - linkers}


# --- The tables -----------------------------------------------------------------------------------

def ask_everything():
    mappings = ask_mappings()
    compositions = ask_compositions(mappings["nfd"])
    properties = {**ask_pre_tokenizers(), **ask_normalizers(mappings["nfd"]), **ask_graphemes(),
                  "kComposesBehind": {second for _, second in compositions}}
    assert sorted(properties) == sorted(PROPERTIES)
    return {"properties": properties, "categories": ask_categories(), "scripts": ask_scripts(),
            "classes": ask_combining_classes(mappings["nfd"]), "mappings": mappings,
            "compositions": compositions}


def array(kind, name, items):
    lines, line = [], ""
    for item in map(str, items):
        if len(line) + len(item) + 1 > 100:
            lines.append(line)
            line = ""
        line += f"{item},"
    return [f"const {kind} {name}[{len(items)}] = {{", *lines, line, "};", ""]


def shared_blocks(values):
    """The number of each block of values, and the values of all distinct blocks one behind another."""
    blocks = {}
    numbers = [blocks.setdefault(tuple(values[begin:begin + BLOCK]), len(blocks))
               for begin in range(0, len(values), BLOCK)]
    return numbers, [value for block in blocks for value in block]


def three_stages(name, values):
    """The arrays <name>_groups, <name>_blocks and <name>_values: each holds places in the next."""
    blocks, last = shared_blocks(values)
    groups, middle = shared_blocks(blocks)
    kind = "std::uint8_t" if max(last) < 256 else "std::uint16_t"
    return [*array("std::uint8_t", f"{name}_groups", groups), *array("std::uint16_t", f"{name}_blocks", middle),
            *array(kind, f"{name}_values", last)]


def record_tables(asked):
    """One record for each set of properties, category and combining class that occurs."""
    flags = [0] * LIMIT
    for bit, name in enumerate(PROPERTIES):
        for code in asked["properties"][name]:
            flags[code] |= 1 << bit
    records = {}
    values = [records.setdefault(record, len(records))
              for record in zip(flags, asked["categories"], asked["classes"])]
    rows = [f"{{{flag}u,Category::{CATEGORIES[category]},{number}}}" for flag, category, number in records]
    return [*three_stages("record", values), *array("Record", "records", rows)]


def mapping_tables(mappings):
    """Mappings are places in one pool of characters: 32 times the position, and the length."""
    texts = sorted({text for found in mappings.values() for text in found.values()}, key=lambda t: (-len(t), t))
    pool, places = "", {}
    for text in texts:
        at = pool.find(text)
        if at < 0:
            at = len(pool)
            pool += text
        places[text] = at * 32 + len(text)
    rows = {(0, 0, 0): 0}
    values = [rows.setdefault(tuple(places.get(found.get(code), 0) for found in mappings.values()), len(rows))
              for code in range(LIMIT)]
    return [*three_stages("mapping", values),
            *array("Mapping", "mappings", [f"{{{nfd},{nfkd},{lower}}}" for nfd, nfkd, lower in rows]),
            *array("char32_t", "mapping_pool", list(map(ord, pool)))]


def tables_text(asked):
    compositions = [f"{{{first},{second},{code}}}" for (first, second), code in sorted(asked["compositions"].items())]
    lines = [
        f"// Made by `python tests/reference/unicode_tables.py` with tokenizers {tokenizers.__version__}.",
        "// Do not edit: run the script again.", "// clang-format off",
        '#include "accelerate/transformers/tokenizers/unicode/tables.h"', "", "namespace accelerate::detail::unicode {", "",
        *record_tables(asked), *three_stages("script", asked["scripts"]), *mapping_tables(asked["mappings"]),
        *array("Composition", "compositions", compositions),
        f"const std::size_t composition_count = {len(compositions)};", "",
        "}  // namespace accelerate::detail::unicode", ""]
    return "\n".join(lines)


# --- The golden file ------------------------------------------------------------------------------

def checksum(numbers):
    """The 64-bit FNV-1a hash, a step for each whole number."""
    value = 0xCBF29CE484222325
    for number in numbers:
        value = ((value ^ number) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def checksum_rows(asked):
    for name in PROPERTIES:
        yield f"property {name} {checksum(sorted(asked['properties'][name]))}"
    for name in ("categories", "scripts", "classes"):
        yield f"values {name} {checksum(asked[name][code] for code in CODES)}"
    for name, found in asked["mappings"].items():
        numbers = (number for code in sorted(found) for number in (code, *map(ord, found[code])))
        yield f"mapping {name} {checksum(numbers)}"
    numbers = (n for (first, second), code in sorted(asked["compositions"].items()) for n in (first, second, code))
    yield f"compositions all {checksum(numbers)}"


def one_token_each(form):
    """A tokenizer whose tokens are the characters of a normal form."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.normalizer = getattr(normalizers, form)()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    return tokenizer


def random_text(rng, interesting):
    jamo = [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C3), 0xAC00, 0xAC01, 0xD788]
    pick = {"any": lambda: rng.choice(CODES), "ascii": lambda: rng.randrange(0x20, 0x7F),
            "jamo": lambda: rng.choice(jamo)}
    for name, codes in interesting.items():
        pick[name] = functools.partial(rng.choice, codes)
    names = [*pick, "marks", "marks", "first", "first", "second"]
    return "".join(chr(pick[rng.choice(names)]()) for _ in range(rng.randrange(1, 9)))


def normal_form_rows(asked, count=600):
    """form, text, normal form, and the position in the text that each character comes from; all in hex."""
    rng = random.Random(20)
    interesting = {
        "first": sorted({first for first, _ in asked["compositions"]}),
        "second": sorted({second for _, second in asked["compositions"]}),
        "decomposed": sorted(asked["mappings"]["nfkd"]),
        "marks": [code for code in CODES if asked["classes"][code] != 0]}
    tokenizers_of = {form: one_token_each(form) for form in FORMS}
    for number in range(count):
        form, text = FORMS[number % 4], random_text(rng, interesting)
        tokenizer = tokenizers_of[form]
        offsets = tokenizer.encode(text).offsets
        normal = tokenizer.normalizer.normalize_str(text)
        assert len(offsets) == len(normal)
        yield "\t".join((form, " ".join(f"{ord(c):x}" for c in text), " ".join(f"{ord(c):x}" for c in normal),
                         " ".join(f"{begin}-{end}" for begin, end in offsets)))


def golden_text(asked):
    header = f"# What tokenizers {tokenizers.__version__} answered to unicode_tables.py."
    return "\n".join([header, *checksum_rows(asked), *normal_form_rows(asked), ""])


def write_or_check(description, make_files):
    """The command line of a script that writes files: `make_files()` returns the path and the text of each."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the files with the answers of today")
    check = parser.parse_args().check
    differs = False
    for path, text in make_files():
        if not check:
            path.write_text(text, encoding="utf-8")
            print(f"{path}: {len(text)} bytes")
        elif path.read_text(encoding="utf-8") != text:
            differs = True
            print(f"{path} differs")
    sys.exit(1 if differs else 0)


def files():
    asked = ask_everything()
    return [(TABLES, tables_text(asked)), (GOLDEN, golden_text(asked))]


if __name__ == "__main__":
    write_or_check(__doc__, files)
