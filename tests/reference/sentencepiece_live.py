#!/usr/bin/env python3
"""Compares a SentencePiece model read without a class with SentencePiece itself: ids, decoded text, roles of special tokens.

usage: sentencepiece_live.py PROBE [MODEL...] [--made N] [--stress N] [--seed S] [--lines FILE]

--made trains N models, whose rules and flags are drawn at random. Exits 1 and prints the first differences.
"""
import argparse
import io
import pathlib
import random
import sys
import tempfile

import sentencepiece
from pretrained_live import Probe
from tokenizers_live import stress


PARTS = (["the", "quick", "fox", "Fox", "jumps", "over", "dogs", "a", "b", "1", "234", ",", "."] + 12 * [" "] +
         ["  ", "\n", "\t", "\r", "\u2581", "\u3000", "\u00a0", "\ufb01", "\uff21", "\u2460", "\u00e9", "\u00c9", "\u4f60", "\u00df", "<", ">",
          "<s>", "</s>", "<unk>", "<pad>", "<ctl>", "<sep>", "<x y>", "<0x0A>", "\u0000"])


def lines(count, seed):
    """Texts of words, blanks of every kind, letters that rules change, and words that pieces spell."""
    draw = random.Random(seed)
    texts = ["", " ", "\n", "a\n", " a ", "\u2581", "<s>", "<sep>", " <sep> ", "a<sep>b", "<sep> a", "<s>a</s>"]
    while len(texts) < count:
        text = "".join(draw.choices(PARTS, k=draw.randint(1, 14)))
        # A grapheme cluster to which rules apply in part is a known difference.
        texts += [text] if "\r\n" not in text else []
    return texts


def make_models(count, seed, folder):
    """Trains `count` models: each normalizer with each algorithm first, then whatever the seed draws."""
    draw, texts = random.Random(seed), [text for text in lines(600, seed) if "\u0000" not in text and text.strip()]
    rules = [(rule, kind) for rule in ("identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf") for kind in ("unigram", "bpe")]
    for number in range(count):
        rule, kind = rules[number % len(rules)]
        options = {"remove_extra_whitespaces": draw.random() < 0.6, "add_dummy_prefix": draw.random() < 0.8,
                   "treat_whitespace_as_suffix": draw.random() < 0.3, "byte_fallback": draw.random() < 0.5}
        if draw.random() < 0.5:
            options["user_defined_symbols"] = draw.choice([["<sep>"], ["<sep>", "<x y>"], ["<sep>", "234", "\u2581\u2581"]])
            if options["remove_extra_whitespaces"]:  # Symbols of blanks are a known difference then.
                options["user_defined_symbols"] = [one for one in options["user_defined_symbols"] if one.strip("\u2581")]
        if draw.random() < 0.5:
            options["control_symbols"] = ["<ctl>"]
        if draw.random() < 0.3:
            options |= draw.choice([{"bos_id": -1}, {"pad_id": 3}, {"unk_id": 2, "bos_id": 0, "eos_id": 1}, {"unk_piece": "[UNK]", "eos_piece": "<end>"}])
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, model_type=kind, normalization_rule_name=rule, vocab_size=340, minloglevel=2,
            hard_vocab_limit=False, character_coverage=0.985, **options)
        path = folder / f"made_{number}_{rule}_{kind}.model"
        path.write_bytes(model.getvalue())
        print(f"{path.stem}: {options}", file=sys.stderr)
        yield path, options.get("user_defined_symbols", ())


def roles(processor):
    """What Transformers takes from a model for which it has no class."""
    return {name: processor.id_to_piece(one) for name, one in
            (("bos_token", processor.bos_id()), ("eos_token", processor.eos_id()), ("unk_token", processor.unk_id())) if one >= 0}


def decodes_alike(processor, ids):
    """Whether both spell the text of these ids alike: an unknown piece is spelled in another way."""
    return ids and processor.unk_id() not in ids


def are_ties(processor, want, have):
    """Whether both ways to cut a text are as good: of those either may be taken."""
    def total(ids):
        return sum(processor.get_score(one) for one in ids)
    return have is not None and abs(total(want) - total(have)) < 1e-4 and processor.decode(want) == processor.decode(have)


def compare(probe, model, texts, symbols=()):
    """How many of `texts` SentencePiece cuts otherwise. `symbols`: the user-defined ones."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    faults = 0

    def check(what, want, have, show=lambda value: value):
        nonlocal faults
        if want == have:
            return
        faults += 1
        if faults <= 5:
            print(f"{model.stem}: {what!r}\n  {show(want)!r}\n  {have and show(have)!r}"[:900])

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "tokenizer.model").write_bytes(model.read_bytes())
        if opened := probe.ask(open=folder):
            print(opened)
            return 1
        check("roles", roles(processor), probe.ask(about=True)["special_tokens_map"])
        for text in texts:
            # A text that is a user-defined symbol and nothing else is a known difference.
            if processor.normalize(text).strip("\u2581") in [symbol.strip("\u2581") for symbol in symbols]:
                continue
            want = processor.encode(text)
            have = probe.ask(call={"text": text}).get("input_ids", [None])[0]
            if "unigram" in model.stem and want != have and are_ties(processor, want, have):
                continue
            check(text, want, have, lambda ids: [processor.id_to_piece(i) for i in ids])
            if want == have and decodes_alike(processor, want):
                check(["decoded", text], processor.decode(want), probe.ask(decode=want)["text"])
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--made", type=int, default=0)
    parser.add_argument("--stress", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", action="append", default=[])
    args = parser.parse_args()
    # Control symbols in a text are no tokens to SentencePiece, which knows them by their ids alone.
    texts = [line for name in args.lines for line in open(name, encoding="utf-8", errors="replace").read().split("\n")]
    texts += stress(args.stress, args.seed, ["<s>", "</s>", "<unk>"])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        made = [(model, lines(args.stress, args.seed), symbols) for model, symbols in make_models(args.made, args.seed, pathlib.Path(folder))]
        for model, compared, symbols in [(model, texts, ()) for model in args.models] + made:
            faults = compare(Probe(args.probe), model, compared, symbols)
            print(f"{model.parent.name}/{model.stem}: {len(compared)} texts compared, {faults} differ")
            failed += faults
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
