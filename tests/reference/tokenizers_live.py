#!/usr/bin/env python3
"""Compares a probe that uses this library with Hugging Face `tokenizers`, text by text.

usage: tokenizers_live.py PROBE TOKENIZER.JSON... [--lines FILE]... [--stress N] [--seed S]

Ids, types, tokens, offsets in code points, words, masks, overflowing parts and decoded text must be equal.
Exits 1 and prints the first differences; prints the number of texts compared.
"""
import argparse
import json
import random
import subprocess
import sys
import threading
import unicodedata

from tokenizers import Tokenizer

SCRIPTS = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE80), (0x1100, 0x1200),
           (0x1E00, 0x2100), (0x2000, 0x2070), (0x2190, 0x2C00), (0x3000, 0x3130), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
           (0xF900, 0xFB00), (0xFE00, 0x10000), (0x1D100, 0x1D800), (0x1F1E6, 0x1F200), (0x1F300, 0x1FA00), (0x20000, 0x20100),
           (0xE0000, 0xE0200)]
PARTS = ["the", " quick", "'s", "'LL", "don't", "…", "  ", "\t", "\r\n", "\n\n", "\u200d", "\ufe0f", "👩‍👩‍👧", "🇩🇪", "é", "e\u0301",
         "ﬁ", "İ", "ſ", "K", "ß", "ǅ", "\u00ad", "\ufeff", "\x00", "\x07", "\x1c", "\x85", "\u3000", "\u2028", "가", "각", "ᄀ", "ᅡ", "ᆨ",
         "你好", "日本", "ー", "א", "نص", "क्ष", "1234", "٣", "Ⅷ", "½", ".", ",", "!?", "--", "__", "##", "▁", " ▁", "Ġ", "<0x0A>"]


def stress(count, seed, specials):
    """Texts that are hard to cut: all scripts, controls, marks, long runs, special tokens in between."""
    draw = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            if kind < 0.35:
                parts.append(draw.choice(PARTS))
            elif kind < 0.45:
                parts.append(draw.choice(specials) if specials else " ")
            elif kind < 0.85:
                low, high = draw.choice(SCRIPTS)
                parts.append("".join(chr(draw.randrange(low, high)) for _ in range(draw.randint(1, 8))))
            elif kind < 0.95:
                code = draw.randrange(0x110000)
                parts.append(chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd")
            else:
                parts.append(draw.choice(PARTS) * draw.randint(2, 60))
        yield "".join(parts)


def requests_of(texts, seed):
    """Plain encodings, and some with pairs, truncation and without special tokens."""
    draw = random.Random(seed)
    for number, text in enumerate(texts):
        request = {"text": text}
        if number % 5 == 1:
            request["pair"] = texts[draw.randrange(len(texts))]
        if number % 7 == 2:
            request["special"] = False
        if number % 5 in (2, 1):
            request.update(max_length=draw.randint(6, 24), stride=draw.randint(0, 2), side=draw.choice(["left", "right"]),
                           strategy=draw.choice(["longest_first", "longest_first", "only_first"]))
        yield request


def described(encoding):
    return {"ids": encoding.ids, "types": encoding.type_ids, "tokens": encoding.tokens,
            "offsets": [list(pair) for pair in encoding.offsets],
            "words": [-1 if word is None else word for word in encoding.word_ids],
            "special": encoding.special_tokens_mask, "attention": encoding.attention_mask}


def expected(tokenizer, request):
    tokenizer.no_truncation()
    try:
        if "max_length" in request:
            tokenizer.enable_truncation(request["max_length"], stride=request["stride"], strategy=request["strategy"],
                                        direction=request["side"])
        encoding = tokenizer.encode(request["text"], request.get("pair"), add_special_tokens=request.get("special", True))
    except BaseException as error:  # A panic of Rust is no Exception.
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"error": str(error)}
    result = described(encoding)
    result["overflowing"] = [described(part) for part in encoding.overflowing]
    result["decoded"] = [tokenizer.decode(encoding.ids), tokenizer.decode(encoding.ids, skip_special_tokens=False)]
    return result


def difference(want, have):
    """The first field that differs; "" if none does."""
    if ("error" in want) != ("error" in have):
        return f"error: {want.get('error')!r}, {have.get('error')!r}"
    for key in want:
        if key == "overflowing":
            if len(want[key]) != len(have[key]):
                return f"overflowing: {len(want[key])}, {len(have[key])}"
            for one, other in zip(want[key], have[key]):
                if found := difference(one, other):
                    return "overflowing " + found
        elif key != "error" and want[key] != have[key]:
            return f"{key}: {want[key]}, {have[key]}"
    return ""


def compare(probe, path, texts, seed):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    asked = list(requests_of(texts, seed))
    process = subprocess.Popen([probe, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send():
        for request in asked:
            sent = dict(request)
            for key in ("text", "pair"):
                if key in sent:
                    sent[key] = sent[key].encode().hex()
            process.stdin.write(json.dumps(sent).encode() + b"\n")
        process.stdin.close()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    faults = count = 0
    for request in asked:
        line = process.stdout.readline()
        if not line:
            print(f"{path}: the probe ended at {request!r}")
            return 1, count
        count += 1
        if found := difference(expected(tokenizer, request), json.loads(line)):
            faults += 1
            if faults <= 5:
                print(f"{path}: {request!r}\n  {found[:1500]}")
    sender.join()
    process.wait()
    return faults, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--lines", action="append", default=[])
    parser.add_argument("--stress", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    lines = [line for name in args.lines for line in open(name, encoding="utf-8", errors="replace").read().split("\n")]
    failed = 0
    for path in args.tokenizers:
        added = json.load(open(path, encoding="utf-8")).get("added_tokens") or []
        specials = [token["content"] for token in added[:50]]
        faults, count = compare(args.probe, path, lines + list(stress(args.stress, args.seed, specials)), args.seed)
        print(f"{path}: {count} texts compared, {faults} differ")
        failed += faults
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
