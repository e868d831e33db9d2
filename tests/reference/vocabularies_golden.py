#!/usr/bin/env python3
"""Asks Hugging Face `tokenizers` how it reads scores and vocabularies that hold a word twice.

Writes vocabularies_golden.json beside this script: spelled numbers with the double that each becomes as a score of a
Unigram; tokenizers whose vocabulary has a word twice, or whose scores decide between equal ways to cut a text, with
what they make of texts.
"""
import json
import pathlib
import random

from tokenizers import Tokenizer, models

GOLDEN = pathlib.Path(__file__).with_suffix(".json")


def file_of(model):
    """A tokenizer.json with nothing but a model, whose text is given: Python's JSON knows no word twice."""
    return f'{{"added_tokens":[],"model":{model}}}'


def unigram(pairs, unk_id=0, byte_fallback=False):
    """`pairs`: tokens and scores as they are spelled."""
    vocab = ",".join(f"[{json.dumps(token)},{score}]" for token, score in pairs)
    return file_of(f'{{"type":"Unigram","unk_id":{unk_id},"byte_fallback":{json.dumps(byte_fallback)},"vocab":[{vocab}]}}')


def spelled_numbers():
    chance = random.Random(5)
    yield from ("0", "-0", "-0.0", "1", "-7", "18446744073709551615", "18446744073709551616", "-9223372036854775809",
                "184467440737095516159", "184467440737095516190.25", "1844674407370955161.5", "1844674407370955161.6",
                "0.1", "1e22", "1E23", "1e-22", "1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "123456789e-320",
                "1e-400", "0e999", "-3.2256999015808105", "-11.768737792968750000000000001")
    for _ in range(150):
        yield repr(-chance.uniform(0, 20))
    for _ in range(100):
        digits = "".join(chance.choice("0123456789") for _ in range(chance.randrange(1, 30)))
        whole, behind = str(chance.randrange(10 ** chance.randrange(1, 25))), chance.choice(["", f".{digits}"])
        yield f"{chance.choice(['', '-'])}{whole}{behind}{chance.choice(['', '', f'e{chance.randrange(-40, 40)}'])}"


def read_by_original(spelled):
    model = json.loads(Tokenizer.from_str(unigram([("a", spelled)])).to_str())["model"]
    return float(model["vocab"][0][1]).hex()


def map_of(type_of_model, entries, **others):
    vocab = ",".join(f"{json.dumps(token)}:{id}" for token, id in entries)
    rest = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in others.items())
    return file_of(f'{{"type":"{type_of_model}","vocab":{{{vocab}}}{rest}}}')


def tied_unigram(seed):
    """Scores that are sums of each other, so that only rounding decides."""
    chance = random.Random(seed)
    scores = {letter: round(chance.uniform(-9, -1), chance.randrange(1, 17)) for letter in "abc\u2581"}
    words = ["".join(chance.choice("abc") for _ in range(chance.randrange(2, 4))) for _ in range(12)]
    words += ["\u2581" + word for word in words[:4]] + ["\u2581\u2581", "a\u2581" if seed % 3 == 0 else "\u2581ab"]
    pairs = [("<unk>", "0")] + [(letter, repr(score)) for letter, score in scores.items()]
    pairs += [(word, repr(sum(scores[letter] for letter in word))) for word in dict.fromkeys(words)]
    return unigram(pairs), ["\u2581".join("".join(chance.choice("abc\u2581d" if chance.random() < .1 else "abc") for _ in range(
        chance.randrange(1, 12))) for _ in range(chance.randrange(1, 12))) for _ in range(25)]


def tokenizers():
    twice = [("<unk>", 0), ("a", -1), ("b", -2), ("a", -30), ("ab", -31.5)]
    yield unigram(twice), ["ab", "a", "abx", "bba"]
    yield unigram([("<unk>", 0), *twice], unk_id=1), ["ab", "xy<unk>"]
    yield unigram([*twice, ("<0x78>", -1), ("<0x78>", -2)], byte_fallback=True), ["abx"]
    yield map_of("WordLevel", [("a", 0), ("b", 1), ("a", 3)], unk_token="a"), ["a", "b", "c"]
    yield map_of("WordPiece", [("a", 0), ("##b", 1), ("a", 3), ("##b", 1)], unk_token="a", continuing_subword_prefix="##",
                 max_input_chars_per_word=100), ["ab", "b"]
    yield map_of("BPE", [("a", 0), ("b", 1), ("a", 3), ("ab", 2)], merges=[["a", "b"]], unk_token=None, dropout=None,
                 continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False, byte_fallback=False), ["aba"]
    for seed in range(8):
        yield tied_unigram(seed)


def made_of_lists(text_of_file):
    """A Unigram as Transformers makes it in Python, whose JSON rounds scores to the nearest double; else None."""
    model = json.loads(text_of_file)["model"]
    if model["type"] != "Unigram":
        return None
    return Tokenizer(models.Unigram([tuple(pair) for pair in model["vocab"]], model["unk_id"], model["byte_fallback"]))


def answers(text_of_file, texts):
    tokenizer, nearest = Tokenizer.from_str(text_of_file), made_of_lists(text_of_file)
    ids = range(8)
    return {"file": text_of_file, "size": tokenizer.get_vocab_size(), "tokens": [tokenizer.id_to_token(id) for id in ids],
            "texts": [[text, *(each.encode(text).ids for each in (tokenizer, nearest) if each)] for text in texts],
            "decoded": tokenizer.decode([id for id in ids if tokenizer.id_to_token(id) is not None])}


def main():
    golden = {"numbers": [[spelled, read_by_original(spelled)] for spelled in spelled_numbers()],
              "tokenizers": [answers(*each) for each in tokenizers()]}
    rows = {key: ",\n".join(map(json.dumps, rows)) for key, rows in golden.items()}
    GOLDEN.write_text("{" + ",\n".join(f'"{key}": [\n{text}]' for key, text in rows.items()) + "}\n", encoding="utf-8")
    print(f"{GOLDEN}: {len(golden['numbers'])} numbers, {len(golden['tokenizers'])} tokenizers")


if __name__ == "__main__":
    main()
