#!/usr/bin/env python3
"""Writes one small tokenizer.json per component and set of options, made by Hugging Face `tokenizers`.

usage: tokenizer_components.py FOLDER
"""
import pathlib
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

LETTERS = [chr(code) for code in range(0x21, 0x7F)] + ["é", "你", "▁", "Ġ"]
WORDS = ["the", "quick", "don", "ing", "##s", "##ing", "##t", "th", "qu", "ick", "12", "##34", "▁the", "▁quick"]


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# GPT-2, Llama 3, Qwen 2, o200k, and the three of DeepSeek.
KNOWN_PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES,
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES,
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + SPACES,
]
NOT_HAN = r"&&[^\p{Han}]]"
KIMI = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{UPPER[:-1]}{NOT_HAN}*{LOWER[:-1]}{NOT_HAN}+{CONTRACTIONS}?|"
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER[:-1]}{NOT_HAN}+{LOWER[:-1]}{NOT_HAN}*{CONTRACTIONS}?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES)
# What the dialect has: anchors, classes of classes, repetitions, flags, looking around.
PATTERNS = [
    r"^.", r".$", r"\A\W?", r".\z", r".\Z", r"\n^.", r"\b", r"\B", r"\b\w+\b", r"(?<=\s)\S", r"(?<!\w)\w{2,}", r"\w(?=\W)", r".(?!.)",
    r"[a-z&&[^aeiou]]+", r"[^a-z&&[^\d]]+", r"[[:space:][:digit:]]+", r"[[^:word:]x]+", r"[^\P{L}]+", r"\p{^L}+", r"\p{Uppercase_Letter}|\p{nd}+",
    r"\p{Mark}+", r"\p{Cn}", r"\p{Co}|\p{Cf}", r"[\p{Sm}\p{Sc}\p{Sk}\p{So}]", r"\p{Z}+", r"\p{Any}{3}", r"\p{Assigned}+", r"\p{ASCII}+",
    r"(?i)the|QU", r"(?i:k)+", r"(?i)[a-k]+", r"(?i)[^s]", r"t(?i:h)e", r"(?m:t.+)", r"(?m)t.+e", r"(?x) t  h # comment", r"(?#comment)e",
    r"\h+", r"\H", r"\R", r"\N+", r"\O{1,4}", r"\x{1F469}|\u00e9|\x41", r"\t|\v|\f|\e|\a", r"[]a]", r"[a\-z]", r"[a-]", r"\-\_", r"x{", r"e{,2}", r"1{2,}",
    r"(?:\w{1,2})+", r"\w{1,2}+", r"\s++\S", r"\w*?e", r"\w+?\b", r"(?>\w+)e|q", r"(?<name>t)h", r"(t|th|the)(?:e|)", r"a|", r"(?:)", r"e*", r"\d*|t",
    r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r" ?[^\s.,!?]+[.,!?]*", r"(?=(\d{3})+(?!\d))", r"\d{1,3}(?=(?:\d{3})*\b)",
    r"[-\w]+", r"[[:punct:]]+|\p{punct}", r"[^\p{Latin}\s]+|\p{Alpha}", r"\Q\E|\pL|[\X\N]", r"\X", r"\p{L}|\X{2}", r"\w\y|\Y.+\y.", KIMI,
]


def precompiled(rules):
    """The charsmap of SentencePiece: a double array over the bytes of the keys, then the values."""
    values, offsets = b"", {}
    for key, value in sorted(rules.items(), key=lambda rule: rule[0].encode()):
        offsets[key.encode()] = len(values)
        values += value.encode() + b"\0"
    units, used = [0] * 65536, {0}

    def place(prefix, node):
        children = sorted({key[len(prefix)] if len(key) > len(prefix) else 0 for key in offsets if key.startswith(prefix)})
        base = next(b for b in range(256, 65536, 256) if all(b ^ c not in used for c in children) and (node ^ b) < 1 << 21)
        used.update(base ^ child for child in children)
        units[node] |= (node ^ base) << 10 | (0x100 if 0 in children else 0)
        for child in children:
            if child == 0:
                units[base] = offsets[prefix] | 1 << 31
            else:
                units[base ^ child] = child
                place(prefix + bytes([child]), base ^ child)

    place(b"", 0)
    trie = struct.pack(f"<{max(used) + 256}I", *units[:max(used) + 256])
    return struct.pack("<I", len(trie)) + trie + values


def unigram(**options):
    vocabulary = [("<unk>", 0.0)] + [(word, -float(len(word)) / 7 - i * 0.01) for i, word in enumerate(WORDS + LETTERS)]
    return models.Unigram(vocabulary, unk_id=0, **options)


def text_only():
    """One token for all of the text, which is spelled out: shows what a normalizer made of it."""
    return models.Unigram([("<unk>", 0.0)], unk_id=0)


def characters():
    """One token a character: shows where each comes from."""
    return models.BPE({"<unk>": 0}, [], unk_token="<unk>")


def bpe(**options):
    vocabulary = {letter: i for i, letter in enumerate(LETTERS)}
    merges = [("t", "h"), ("th", "e"), ("q", "u"), ("i", "c"), ("ic", "k"), ("qu", "ick"), ("a", "a"), ("aa", "aa"), ("1", "2"),
              ("Ġ", "the"), ("▁", "the")]
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    for token in options.pop("more", []):
        vocabulary.setdefault(token, len(vocabulary))
    return models.BPE(vocabulary, merges, **options)


def word_piece(**options):
    vocabulary = {word: i for i, word in enumerate(["[UNK]"] + WORDS + LETTERS + ["##" + letter for letter in LETTERS])}
    return models.WordPiece(vocabulary, unk_token="[UNK]", **options)


def byte_bpe(**options):
    vocabulary = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("1", "2"), ("ð", "Ł"), ("Ã", "©")]
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    return models.BPE(vocabulary, merges, **options)


def normalizers_of():
    yield from ((f"bert_{clean:d}{cjk:d}{accents}{lower:d}", normalizers.BertNormalizer(clean, cjk, accents, lower))
                for clean in (False, True) for cjk in (False, True) for accents in (None, False, True)
                for lower in (False, True))
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "ByteLevel"):
        yield name, getattr(normalizers, name)()
    for left in (False, True):
        for right in (False, True):
            yield f"strip_{left:d}{right:d}", normalizers.Strip(left, right)
    yield "prepend", normalizers.Prepend("▁x")
    yield "replace", normalizers.Replace("e", "ıŁ")
    yield "replace_away", normalizers.Replace(" ", "")
    yield "sequence", normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                            normalizers.Replace(" ", "▁"), normalizers.Strip(), normalizers.NFKC()])
    yield "replace_regex", normalizers.Replace(Regex(r"\s+"), " ")
    yield "replace_edges", normalizers.Replace(Regex(r"^|\b"), "·")
    yield "precompiled", normalizers.Precompiled(precompiled({"ﬁ": "fi", "é": "E", "e\u0301": "e", "\u00ad": "", "the": "DIE", "  ": " ", "你": "nǐ"}))


def pre_tokenizers_of():
    yield from ((name, getattr(pre_tokenizers, name)()) for name in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit",
                                                                     "UnicodeScripts"))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"punctuation_{behavior}", pre_tokenizers.Punctuation(behavior)
        for invert in (False, True):
            yield f"split_{behavior}_{invert:d}", pre_tokenizers.Split("e", behavior, invert)
            yield f"split_regex_{behavior}_{invert:d}", pre_tokenizers.Split(Regex(r"\d+|\s"), behavior, invert)
    for individual in (False, True):
        yield f"digits_{individual:d}", pre_tokenizers.Digits(individual)
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            yield f"metaspace_{scheme}_{split:d}", pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    yield "delimiter", pre_tokenizers.CharDelimiterSplit("e")
    yield "bytes_plain", pre_tokenizers.ByteLevel(False, use_regex=False)
    yield "bytes_space", pre_tokenizers.ByteLevel(True, use_regex=False)
    yield "bytes_regex", pre_tokenizers.ByteLevel(False)
    yield "bytes_regex_space", pre_tokenizers.ByteLevel(True)
    for number, pattern in enumerate(KNOWN_PATTERNS):
        yield f"known_{number}", pre_tokenizers.Split(Regex(pattern), "isolated")
        # Spelled otherwise, it is not known.
        yield f"known_{number}_general", pre_tokenizers.Split(Regex(f"(?:{pattern})"), "isolated")
    for number, pattern in enumerate(PATTERNS):
        yield f"pattern_{number}", pre_tokenizers.Split(Regex(pattern), "isolated")
    yield "sequence", pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
                                               pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(True, use_regex=False)])
    yield "bytes_before", pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(True, use_regex=False), pre_tokenizers.Digits(True)])


def models_of():
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    yield "unigram", unigram()
    yield "unigram_bytes", models.Unigram([("<unk>", 0.0)] + [(token, -9.0) for token in bytes_of + ["the", "qu"]], 0, True)
    yield "bpe_silent", bpe()
    for fuse in (False, True):
        yield f"bpe_unknown_{fuse:d}", bpe(unk_token="<unk>", fuse_unk=fuse, more=["<unk>"])
        yield f"bpe_bytes_{fuse:d}", bpe(unk_token="<unk>", fuse_unk=fuse, byte_fallback=True, more=["<unk>"] + bytes_of[:0xE0])
    yield "bpe_whole", bpe(ignore_merges=True, more=["don't", "quic"])
    yield "bpe_suffix", bpe(end_of_word_suffix="</w>", unk_token="<unk>", more=["<unk>", "e</w>", "k</w>", "the</w>"])
    vocabulary = {token: i for i, token in enumerate(["<unk>", *LETTERS, *("##" + x for x in LETTERS), "th", "the", "##ic", "##ick"])}
    merges = [("t", "##h"), ("th", "##e"), ("##i", "##c"), ("##ic", "##k")]
    yield "bpe_prefix", models.BPE(vocabulary, merges, continuing_subword_prefix="##", unk_token="<unk>")
    yield "word_piece", word_piece()
    yield "word_piece_short", word_piece(max_input_chars_per_word=4)
    yield "word_level", models.WordLevel({"[UNK]": 7, "the": 1, "quick": 3}, unk_token="[UNK]")


def processors_of():
    yield "bert", processors.BertProcessing(("[SEP]", 8), ("[CLS]", 9))
    for trim in (False, True):
        for space in (False, True):
            yield f"roberta_{trim:d}{space:d}", processors.RobertaProcessing(("</s>", 8), ("<s>", 9), trim, space)
    yield "bytes_trim", processors.ByteLevel(True)
    yield "bytes", processors.ByteLevel(False)
    template = processors.TemplateProcessing(single="[A]:3 $A:1 [B]:2 [B]:4", pair="[B] $B:5 [A]:1 $A:2 [B]:7",
                                             special_tokens=[("[A]", 8), ("[B]", 9)])
    yield "template", template
    yield "sequence", processors.Sequence([processors.ByteLevel(True), template])


def decoders_of():
    yield "word_piece", decoders.WordPiece()
    yield "word_piece_plain", decoders.WordPiece("##", cleanup=False)
    yield "bytes", decoders.ByteLevel()
    yield "bpe", decoders.BPEDecoder("e")
    for scheme in ("always", "first", "never"):
        yield f"metaspace_{scheme}", decoders.Metaspace(prepend_scheme=scheme)
    yield "byte_fallback", decoders.ByteFallback()
    yield "fuse", decoders.Fuse()
    yield "strip_left", decoders.Strip("t", 1, 0)
    yield "strip_right", decoders.Strip("e", 0, 1)
    yield "replace", decoders.Replace("t", "--")
    yield "ctc", decoders.CTC("t", "h", True)
    yield "ctc_plain", decoders.CTC("t", "h", False)
    yield "sequence", decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                         decoders.Strip(" ", 1, 0)])


ADDED = [AddedToken("<a>", lstrip=True), AddedToken("<b>", rstrip=True), AddedToken("<ab>", lstrip=True, rstrip=True),
         AddedToken("quick", single_word=True), AddedToken("É", normalized=True), AddedToken("THE", normalized=False),
         AddedToken("<s>", special=True), AddedToken("<s><s>", special=True), AddedToken("  ", normalized=False)]


def tokenizers_of():
    for name, normalizer in normalizers_of():
        for model in (text_only, characters):
            tokenizer = Tokenizer(model())
            tokenizer.normalizer = normalizer
            yield f"normalizer.{name}.{model.__name__}", tokenizer
    for name, pre_tokenizer in pre_tokenizers_of():
        for model in (text_only, characters, byte_bpe):
            tokenizer = Tokenizer(model())
            tokenizer.pre_tokenizer = pre_tokenizer
            yield f"pre_tokenizer.{name}.{model.__name__}", tokenizer
    for name, model in models_of():
        for pre_tokenizer in (None, pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()):
            tokenizer = Tokenizer(model)
            if pre_tokenizer is not None:
                tokenizer.pre_tokenizer = pre_tokenizer
            yield f"model.{name}.{type(pre_tokenizer).__name__}", tokenizer
    for name, processor in processors_of():
        tokenizer = Tokenizer(byte_bpe())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(True, use_regex=False)
        tokenizer.post_processor = processor
        yield f"processor.{name}", tokenizer
    for name, decoder in decoders_of():
        tokenizer = Tokenizer(bpe(unk_token="<unk>", byte_fallback=True, more=["<unk>"] + [f"<0x{b:02X}>" for b in range(256)]))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoder
        yield f"decoder.{name}", tokenizer
    for name, normalizer in (("plain", None), ("lower", normalizers.Lowercase()), ("nfd", normalizers.NFD())):
        tokenizer = Tokenizer(word_piece())
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.add_tokens(ADDED)
        yield f"added.{name}", tokenizer
    # Where a text begins is decided behind tokens, and behind what drops the first characters.
    for name, normalizer in (("strip", normalizers.Strip()), ("away", normalizers.Replace("t", "")), ("nmt", normalizers.Nmt()),
                             ("bert", normalizers.BertNormalizer())):
        tokenizer = Tokenizer(unigram())
        tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.add_tokens(ADDED[:-1] + [AddedToken(space, lstrip=True, rstrip=True, normalized=False) for space in ("  ", "\n\n")])
        yield f"first.{name}", tokenizer


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokenizer in tokenizers_of():
        tokenizer.save(str(folder / f"{name}.json"))


if __name__ == "__main__":
    main()
