#!/usr/bin/env python3
"""Writes encodings_golden.json: small tokenizers, and what Hugging Face `tokenizers` and Transformers make of texts.

Usage: encodings_golden.py
"""
import contextlib
import itertools
import json
import pathlib
import tempfile

import transformers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

BERT_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "jump", "##s", "##ed", "over", "lazy", "dog", "cafe", "a",
              "##b", ",", ".", "!", "'", "it", "s", "1", "##2", "你", "好", "naive"]
TEXTS = ["", " ", "The fox jumps over the lazy dogs, it's naïve!", "Cafés 你好 12.", "  fox\t\n fox  ", "foxes jumped the [MASK] dog.",
         "[MASK]fox [SEP]", "a 👩‍👩‍👧 b\u0301 ß", "the fox " * 3]
PAIRS = [("The fox jumps over the dog", "It's a lazy café."), ("fox", "the lazy dog jumped over the fox 12"), ("", "fox"), ("fox", "")]
ADDED = [AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True), AddedToken("fo", single_word=True),
         AddedToken("CAFÉ", normalized=True), AddedToken("DOG", normalized=False), AddedToken("<end>", special=True)]
ADDED_TEXTS = ["the <left> fox", "the  <right>  fox", "fo fox fo_ -fo-", "Café CAFÉ cafe", "DOG dog", "fox<end>fox <end> ", "<left><right> fo"]


def bert():
    def token(name, kind):
        return {"SpecialToken": {"id": name, "type_id": kind}}

    def text(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    special = {name: {"id": name, "ids": [BERT_WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    single = [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)]
    return {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single + [text("B", 1), token("[SEP]", 1)],
                               "special_tokens": special},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": {word: i for i, word in enumerate(BERT_WORDS)}},
            "added_tokens": [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True} for i, word in enumerate(BERT_WORDS[:5])]}


def byte_level():
    def letter(byte):
        kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
        return chr(byte) if byte in kept else chr(256 + sum(b not in kept for b in range(byte)))

    merges = [["t", "h"], ["th", "e"], ["Ġ", "the"], ["f", "o"], ["fo", "x"], ["Ġ", "fox"], ["Ġ", "f"], ["d", "o"], ["do", "g"], ["Ã", "©"]]
    words = [letter(byte) for byte in range(256)] + ["".join(pair) for pair in merges] + ["<s>", "</s>"]
    vocab = {word: i for i, word in enumerate(words)}
    return {"normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", vocab["</s>"]], "cls": ["<s>", vocab["<s>"]],
                               "trim_offsets": True, "add_prefix_space": False},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges},
            "added_tokens": []}


def unigram():
    words = [["<unk>", 0.0], ["▁", -2.0], ["▁the", -2.5], ["▁fox", -3.0], ["fox", -4.0], ["es", -4.0], ["▁lazy", -5.0], ["d", -6.0],
             ["o", -6.0], ["g", -6.0], ["dog", -7.0], ["jump", -5.0], ["s", -5.5], ["é", -8.0], ["e", -5.0], ["t", -6.0], ["h", -6.0]]
    scheme = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}, "pre_tokenizer": scheme,
            "post_processor": None, "decoder": scheme,
            "model": {"type": "Unigram", "unk_id": 0, "vocab": words, "byte_fallback": False}, "added_tokens": []}


def byte_fallback():
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", "t", "h", "e", "f", "o", "x", "th", "the", "▁the"]
    return {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
            "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                         {"type": "ByteFallback"}, {"type": "Fuse"},
                                                         {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": {word: i for i, word in enumerate(words)},
                      "merges": [["t", "h"], ["th", "e"], ["▁", "the"]]},
            "added_tokens": []}


def word_level():
    return {"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "The": 1, "fox": 2, "the": 3, "dog": 4, ",": 5, "é": 6}},
            "added_tokens": []}


def cut(encoding):
    """What truncation changes."""
    return {"ids": encoding.ids, "types": encoding.type_ids, "special": encoding.special_tokens_mask,
            "overflowing": [part.ids for part in encoding.overflowing]}


def described(encoding, parts=True):
    row = {"ids": encoding.ids, "types": encoding.type_ids, "tokens": encoding.tokens, "offsets": [list(pair) for pair in encoding.offsets],
           "words": [-1 if word is None else word for word in encoding.word_ids],
           "special": encoding.special_tokens_mask, "attention": encoding.attention_mask}
    if parts:
        row["overflowing"] = [described(part, parts=False) for part in encoding.overflowing]
    return row


def in_bytes(text, offsets):
    """Offsets in code points as offsets in bytes of UTF-8."""
    return [[len(text[:place].encode()) for place in pair] for pair in offsets]


def encodings(tokenizer):
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        yield {"text": text, "want": described(encoding), "bytes": in_bytes(text, tokenizer.encode(text).offsets),
               "decoded": [tokenizer.decode(encoding.ids), tokenizer.decode(encoding.ids, skip_special_tokens=False)]}
        yield {"text": text, "special": False, "want": described(tokenizer.encode(text, add_special_tokens=False))}
    for text, pair in PAIRS:
        yield {"text": text, "pair": pair, "want": described(tokenizer.encode(text, pair))}


def truncations(tokenizer):
    text, pair = "The fox jumps over the lazy dog", "the fox, the dog and the fox"
    for strategy in ("longest_first", "only_first", "only_second"):
        for side in ("left", "right"):
            for length, stride in ((6, 0), (9, 2), (8, 7), (40, 0), (1, 0)):
                for second in (None, pair):
                    # Less than the special tokens wraps around in Rust.
                    if length < tokenizer.num_special_tokens_to_add(second is not None):
                        continue
                    options = {"max_length": length, "stride": stride, "strategy": strategy, "direction": side}
                    row = {"text": text, "pair": second, **options}
                    try:
                        tokenizer.enable_truncation(**options)
                        row["want"] = cut(tokenizer.encode(text, second))
                    except BaseException as error:  # A panic of Rust is no Exception.
                        if isinstance(error, KeyboardInterrupt):
                            raise
                    yield row
    tokenizer.no_truncation()


def paddings(tokenizer):
    texts = ["the fox", "", "the fox jumps over"]
    for side in ("left", "right"):
        for length, multiple in ((None, None), (9, None), (None, 4), (9, 4), (3, None)):
            options = {"direction": side, "pad_id": 3, "pad_type_id": 1, "pad_token": "[X]", "length": length, "pad_to_multiple_of": multiple}
            tokenizer.enable_padding(**options)
            yield {"texts": texts, **options, "want": [described(row) for row in tokenizer.encode_batch(texts)]}
    tokenizer.no_padding()


def additions(data):
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens(ADDED)
    return {"size": tokenizer.get_vocab_size(), "rows": [
        {"text": text, "want": described(tokenizer.encode(text)), "decoded": tokenizer.decode(tokenizer.encode(text).ids)}
        for text in ADDED_TEXTS]}


def beginnings():
    """Metaspace(first) behind normalizers that drop the first characters, and behind other tokens."""
    words = [["<unk>", 0.0]] + [[letter, -3.0] for letter in "▁abt é"] + [["▁a", -1.0], ["ab", -2.0]]
    atoms = ["a", "b ", " ", "  ", "\x07", "\u0301", "<s>", "tok", "é"]
    texts = ["".join(row) for count in (1, 2, 3) for row in itertools.product(atoms, repeat=count)][::5]
    strip_accents = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    for normalizer in (None, normalizers.Strip(), normalizers.Replace("a", ""), normalizers.BertNormalizer(), strip_accents, normalizers.Nmt()):
        tokenizer = Tokenizer(models.Unigram([tuple(word) for word in words], 0, False))
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.add_special_tokens(["<s>"])
        tokenizer.add_tokens([AddedToken("tok", normalized=True)])
        yield tokenizer, texts


def white_tokens():
    """Added tokens of white space that take the white space around them, too."""
    texts = ["".join(row) for count in (1, 2, 3) for row in itertools.product(["a", " ", "  ", "\n", "\n\n", "<a>", "\t"], repeat=count)][::5]
    for content in ("  ", "\n\n"):
        for left, right in ((True, True), (True, False), (False, True)):
            tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["<unk>", "a", " "])}, "<unk>"))
            tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "isolated")
            tokenizer.add_tokens([AddedToken(content, lstrip=left, rstrip=right, normalized=False)])
            yield tokenizer, texts + ["    ", "a    b", "\n\n\n\n", "      a\n\n\n\n "]


def placed(made):
    for tokenizer, texts in made():
        rows = [(text, tokenizer.encode(text)) for text in texts]
        yield {"json": json.loads(tokenizer.to_str()),
               "rows": [[text, row.ids, [list(pair) for pair in row.offsets]] for text, row in rows]}


CALLS = [
    {"text": "the fox"}, {"text": ["the fox jumps", "dog"], "padding": True}, {"text": ["the fox jumps", "dog"], "padding": "longest"},
    {"text": ["the fox jumps over", "dog"], "padding": "max_length", "max_length": 8, "truncation": True},
    {"text": ["the fox jumps over the dog", "dog"], "padding": True, "truncation": True},
    {"text": "the fox jumps over the lazy dog", "truncation": True, "max_length": 5},
    {"text": "the fox jumps over the lazy dog", "max_length": 5},
    {"text": "the fox jumps over the lazy dog", "truncation": "only_first", "max_length": 6, "stride": 1, "return_overflowing_tokens": True},
    {"text": ["the fox jumps over the lazy dog", "fox"], "truncation": True, "max_length": 5, "return_overflowing_tokens": True, "padding": True},
    {"text": "the fox", "text_pair": "the lazy dog"}, {"text": ["the fox", "dog"], "text_pair": ["the lazy dog", "a"], "padding": True},
    {"text": "the fox jumps", "text_pair": "the lazy dog", "truncation": "only_second", "max_length": 8},
    {"text": ["the fox", "dog"], "padding": True, "padding_side": "left"}, {"text": ["the fox", "dog"], "padding": True, "pad_to_multiple_of": 8},
    {"text": "the fox", "add_special_tokens": False}, {"text": "the fox", "return_special_tokens_mask": True},
    {"text": "the fox", "return_token_type_ids": False}, {"text": "the fox", "return_attention_mask": False},
    {"text": "the fox", "padding": "do_not_pad", "max_length": 3}, {"text": "the fox", "truncation": False, "max_length": 3},
]


def folders():
    words = "\n".join(BERT_WORDS) + "\n"
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 7, "pad_token": "[PAD]", "unk_token": "[UNK]",
              "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "extra_special_tokens": ["<extra>"]}
    yield "vocab.txt", {"vocab.txt": words, "tokenizer_config.json": json.dumps(config)}
    yield "tokenizer.json", {"tokenizer.json": json.dumps(bert() | {"version": "1.0"}),
                             "tokenizer_config.json": json.dumps(config | {"model_max_length": int(1e30), "padding_side": "left"})}


def named_tokens():
    """tokenizer_config.json and special_tokens_map.json that give special tokens names of the model's own."""
    names = {"image_token": "fox", "think": "<think>"}
    marked = {"__type": "AddedToken", "content": "<b>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    older = {"added_tokens_decoder": {"5": {"content": "the", "special": True}}}
    yield {"extra_special_tokens": names}, None
    yield {"extra_special_tokens": {"zoom": "<z>", "audio_token": marked, "pad_token": "<p>"}, "additional_special_tokens": ["<e>"]}, None
    yield {"video_token": "<v>", "bos_token": marked, "boa_token": marked, "add_bos_token": False, "extra_special_tokens": ["<e>"]}, None
    yield {"additional_special_tokens": ["<e>"], "extra_special_tokens": ["<f>"], "image_token": "<i>"}, None
    yield {"additional_special_tokens": names, "extra_special_tokens": []}, None
    yield {"model_specific_special_tokens": names, "extra_special_tokens": ["<e>"]}, None
    yield {"model_specific_special_tokens": names, "image_token": "<i>"} | older, None
    yield {"extra_special_tokens": {"image_token": "<i>"}}, {"image_token": {"content": "<j>"}, "video_token": "<v>"}
    yield {"extra_special_tokens": ["<e>"]}, {"extra_special_tokens": names, "boi_token": "<b>"}
    yield {"extra_special_tokens": ["<e>"]}, {"extra_special_tokens": ["<f>", "<e>"], "additional_special_tokens": ["<g>"]}
    yield {"extra_special_tokens": ["<e>"]} | older, {"image_token": "<i>"}


def names():
    model = json.dumps(bert() | {"version": "1.0"})
    for config, older in named_tokens():
        files = {"tokenizer.json": model, "tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer"} | config)}
        if older is not None:
            files["special_tokens_map.json"] = json.dumps(older)
        with opened(files) as tokenizer:
            yield {"files": files, "special_tokens_map": tokenizer.special_tokens_map, "all_special_tokens": tokenizer.all_special_tokens,
                   "extra_special_tokens": tokenizer.extra_special_tokens, "ids": tokenizer.all_special_ids}


def clip():
    """Each character that str.strip() may drop, at both ends of decoded texts."""
    model = byte_level()["model"]
    words = [word + end for end in ("", "</w>") for word in list(model["vocab"])[:256]] + ["<|startoftext|>", "<|endoftext|>"]
    files = {"vocab.json": json.dumps({word: i for i, word in enumerate(words)}), "merges.txt": "#version: 0.2\n",
             "tokenizer_config.json": json.dumps({"tokenizer_class": "CLIPTokenizer"})}
    spaces = [c for c in map(chr, range(0x3001)) if c.isspace()] + list("\0\x1b\u180e\u200b\u2060")
    with opened(files) as tokenizer:
        rows = [list(f"{c}a{c}b{c}{c}".encode()) for c in spaces] + [list("\x1c \u2028".encode())]
        return {"files": files, "rows": [[row, tokenizer.decode(row)] for row in rows]}


def white_words():
    """A vocab.txt whose lines end with white space."""
    files = {"vocab.txt": "\n".join([*BERT_WORDS, "pen ", "ink\u00a0", "cup\x1c", "mug\t\r", "pot\u2028", "jug\u200b"]) + "\n",
             "tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer"})}
    with opened(files) as tokenizer:
        return {"files": files, "tokens": tokenizer.convert_ids_to_tokens(range(len(tokenizer)))}


def answers(tokenizer):
    rows = []
    for call in CALLS:
        made = tokenizer(**call)
        samples = made.pop("overflow_to_sample_mapping", None) if call.get("return_overflowing_tokens") else None
        # Overflowing rows of a single text stay a list.
        is_list = bool(made["input_ids"]) and isinstance(made["input_ids"][0], list)
        rows.append({**call, "want": {key: value if is_list else [value] for key, value in made.items()}, "samples": samples})
    ids = tokenizer("the fox, it's [MASK]!")["input_ids"]
    padded = [tokenizer.pad({"input_ids": [[5, 6, 7], [8]]}, **options).data for options in
              ({}, {"padding": "max_length", "max_length": 5}, {"pad_to_multiple_of": 4})]
    return {"calls": rows, "ids": ids, "decoded": [tokenizer.decode(ids), tokenizer.decode(ids, skip_special_tokens=True),
                                                   tokenizer.decode(ids, clean_up_tokenization_spaces=True)],
            "tokens": tokenizer.convert_ids_to_tokens(ids), "tokenize": tokenizer.tokenize("the fox's"), "padded": padded,
            "special_tokens_map": {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)},
            "all_special_ids": tokenizer.all_special_ids, "size": len(tokenizer), "vocab_size": tokenizer.vocab_size,
            "model_max_length": tokenizer.model_max_length if tokenizer.model_max_length < 1e19 else None}


@contextlib.contextmanager
def opened(files):
    with tempfile.TemporaryDirectory() as folder:
        for file, text in files.items():
            pathlib.Path(folder, file).write_text(text, encoding="utf-8", newline="\n")
        yield transformers.AutoTokenizer.from_pretrained(folder)


def pretrained():
    for name, files in folders():
        with opened(files) as tokenizer:
            yield name, {"files": files, **answers(tokenizer)}


def main():
    made = {}
    for make in (bert, byte_level, unigram, byte_fallback, word_level):
        data = {"version": "1.0", "truncation": None, "padding": None, **make()}
        tokenizer = Tokenizer.from_str(json.dumps(data))
        made[make.__name__] = {"json": data, "encodings": list(encodings(tokenizer)), "additions": additions(data)}
        if make in (bert, unigram):
            made[make.__name__].update(truncations=list(truncations(tokenizer)), paddings=list(paddings(tokenizer)))
    golden = {"tokenizers": made, "placed": {make.__name__: list(placed(make)) for make in (beginnings, white_tokens)},
              "pretrained": dict(pretrained()), "names": list(names()), "clip": clip(), "white_words": white_words()}
    text = json.dumps(golden, ensure_ascii=False, separators=(",", ":"))
    # A line for each row, so that a change shows which.
    text = text.replace(',{"text"', ',\n{"text"').replace('"rows":[[', '"rows":[\n[').replace(']]],["', ']]],\n["').replace(',[]],["', ',[]],\n["')
    pathlib.Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
