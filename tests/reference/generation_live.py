#!/usr/bin/env python3
"""Compares generated text with Transformers, token for token.

usage: generation_live.py PROBE [--seed S] [--rounds N] [--only TYPE]

Small random decoders continue random prompts: by the likeliest token, drawn from a seed, by beams and by drawn beams; with all that a
GenerationConfig says, from the call or from generation_config.json; rows of unequal lengths; stop strings and streamed text with a
tokenizer whose tokens are parts of words and of characters. A row that differs is computed again in fp64, where both must agree: fp32
rounds differently on both sides, and two tokens may lie as close. Exits 1 and prints the differences; prints how many rows were compared.
"""
import argparse
import pathlib
import random
import sys
import tempfile

import tokenizers
from architectures import ARCHITECTURES, POSITIONS, attention_of, config_of
from models_live import Probe, safetensors, torch, transformers

HEADS = {kind: head for kind, architecture in ARCHITECTURES.items() for head in ("causal_lm", "seq2seq_lm") if head in architecture.heads}
KINDS = list(HEADS)
LETTERS = "abcdefgh"


def write_tokenizer(folder, draw):
    """96 tokens of some letters, spaces, line feeds and bytes of é and 中, and an end."""
    space, feed = "\u0120", "\u010a"
    words = {*LETTERS, space, feed, "Ã", "©", "ä", "¸", "Ń"}
    while len(words) < 96:
        words.add("".join(draw.choice(LETTERS + space * 3) for _ in range(draw.choice([2, 3, 4]))))
    vocabulary = {word: number for number, word in enumerate(sorted(words))}
    vocabulary["<end>"] = 96
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    fast.save_pretrained(folder)
    return fast


class Pieces(transformers.TextStreamer):
    def __init__(self, tokenizer):
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
        self.pieces = []

    def on_finalized_text(self, text, stream_end=False):
        if text:
            self.pieces.append(text)


def settings_of(draw, prompt):
    """What a GenerationConfig may say."""
    said = {}

    def maybe(chance, **values):
        if draw.random() < chance:
            said.update(values)

    length = draw.randint(1, POSITIONS - 2 - prompt)
    said.update(draw.choice([{"max_new_tokens": length}, {"max_new_tokens": length}, {"max_length": prompt + length}]))
    maybe(0.6, eos_token_id=draw.choice([draw.randrange(97), [draw.randrange(97) for _ in range(draw.choice([1, 3, 12]))]]))
    maybe(0.5, pad_token_id=draw.choice([0, 1, 50]))
    maybe(0.4, repetition_penalty=draw.choice([0.7, 1.3, 2.0]))
    maybe(0.3, min_new_tokens=draw.randint(0, length))
    maybe(0.2, min_length=draw.randint(0, prompt + length))
    maybe(0.2, use_cache=False)
    maybe(0.2, no_repeat_ngram_size=draw.choice([1, 2, 3]))
    maybe(0.2, forced_bos_token_id=draw.randrange(97))
    maybe(0.2, forced_eos_token_id=draw.choice([draw.randrange(97), [3, draw.randrange(97)]]))
    if draw.random() < 0.5:
        said["do_sample"] = True
        maybe(0.5, temperature=draw.choice([0.3, 0.8, 2.5]))
        maybe(0.5, top_k=draw.choice([0, 1, 5, 96, 500]))
        maybe(0.5, top_p=draw.choice([0.0, 0.3, 0.9, 1.0]))
    if draw.random() < 0.4:
        said["num_beams"] = draw.choice([2, 3, 5])
        maybe(0.5, length_penalty=draw.choice([-1.0, 0.0, 0.5, 2.0]))
        maybe(0.5, early_stopping=draw.choice([True, False, "never"]))
        maybe(0.5, num_return_sequences=draw.randint(1, said["num_beams"]))
    elif "do_sample" in said:
        maybe(0.3, num_return_sequences=draw.choice([2, 3]))
    return said


class Comparison:
    def __init__(self, probe, scratch, draw):
        self.probe, self.scratch, self.draw, self.rows, self.ties, self.faults = probe, scratch, draw, 0, 0, []
        self.tokenizer = write_tokenizer(scratch / "tokenizer", draw)

    def run(self, kind, calls):
        draw, folder = self.draw, self.scratch / "model"
        auto = getattr(transformers, ARCHITECTURES[kind].heads[HEADS[kind]])
        model = auto.from_config(config_of(kind, draw)).eval()
        if draw.random() < 0.5:
            for key, value in settings_of(draw, 1).items():
                if key not in ("max_length", "max_new_tokens", "num_beams", "num_return_sequences", "length_penalty", "early_stopping"):
                    setattr(model.generation_config, key, value)
        model.save_pretrained(folder)
        self.theirs = {"attn_implementation": attention_of(model.config)}
        model = auto.from_pretrained(folder, **self.theirs).eval()
        self.opened = {"open": folder, "task": HEADS[kind], "attention": draw.choice(["sdpa", "eager"])}
        self.ask(**self.opened)
        for _ in range(calls):
            self.call(kind, model)

    def decoder_prompt(self, model, rows, inputs):
        """Gives the decoder of an encoder-decoder model some first tokens, or none. Returns their number, the start included."""
        if self.draw.random() < 0.7:
            return 1
        start = model.generation_config.decoder_start_token_id
        length = self.draw.randint(1, 4)
        ids = torch.tensor([[self.draw.randrange(2, 96) for _ in range(length)] for _ in range(rows)])
        if self.draw.random() < 0.5:
            ids[:, 0] = start
        inputs["decoder_input_ids"] = ids
        return ids.shape[1] + int((ids[:, 0] != start).all())

    def ask(self, **question):
        said = self.probe.ask(**question)
        if "error" in said:
            self.faults.append(f"{question}: {said}")
        return said

    def both(self, model, inputs, said, extra, question):
        """What Python and we make of a call, and the pieces of text that each streams."""
        seed, pieces = question["seed"], None
        if question.pop("streams"):
            extra = extra | {"streamer": (pieces := Pieces(self.tokenizer))}
        torch.manual_seed(seed)
        want = model.generate(**inputs, **said, **extra)
        answer = self.ask(generate=self.scratch / "in", to=self.scratch / "out", config=said, **question)
        got = {} if "error" in answer else safetensors.torch.load_file(self.scratch / "out" / "model.safetensors")
        return want, got, pieces and pieces.pieces, answer.get("text")

    def call(self, kind, model):
        draw = self.draw
        rows, prompt = draw.choice([1, 1, 2, 3]), draw.randint(1, 14)
        ids = torch.tensor([[draw.randrange(2, 96) for _ in range(prompt)] for _ in range(rows)])
        inputs, is_seq2seq = {"input_ids": ids}, ARCHITECTURES[kind].is_seq2seq
        text = prompt
        prompt = self.decoder_prompt(model, rows, inputs) if is_seq2seq else prompt
        said = settings_of(draw, prompt)
        if draw.random() < 0.5:
            inputs["attention_mask"] = torch.ones_like(ids)
            for row in range(rows):
                cut = draw.randrange(text)
                padding = slice(text - cut, text) if is_seq2seq and draw.random() < 0.7 else slice(0, cut)
                inputs["attention_mask"][row, padding] = 0
                ids[row, padding] = 1
        elif said.get("pad_token_id") and text > 1 and draw.random() < 0.3:  # Python takes it for padding, wherever it stands.
            ids[0, draw.choice([0, text // 2, text - 1])] = said["pad_token_id"]
        extra, question = {}, {"seed": draw.randrange(2**31), "streams": False}
        if draw.random() < 0.5:
            extra["tokenizer"], question["tokenizer"] = self.tokenizer, self.scratch / "tokenizer"
            if draw.random() < 0.6:
                said["stop_strings"] = ["".join(draw.choice(LETTERS + "  ") for _ in range(draw.choice([1, 2, 3]))) for _ in range(draw.choice([1, 3]))]
            question["streams"] = rows == 1 and "num_beams" not in said and said.get("num_return_sequences", 1) == 1
        (self.scratch / "in").mkdir(exist_ok=True)
        safetensors.torch.save_file(inputs, self.scratch / "in" / "model.safetensors")
        where = f"{kind} {said}, prompt {tuple(ids.shape)}, {'mask' if 'attention_mask' in inputs else 'no mask'}, of the model {model.generation_config.to_diff_dict()}"
        want, got, pieces, text = self.both(model, inputs, said, extra, dict(question))
        if not got:
            return
        self.rows += want.shape[0]
        if want.shape != got["ids"].shape or not torch.equal(want, got["ids"]):
            if self.is_tie(model, inputs, said, extra, dict(question)):
                self.ties += 1
            else:
                self.faults.append(f"{where}: Python\n{want[:, prompt:].tolist()}\n{got['ids'][:, prompt:].tolist()}")
            return
        if "streamed" in got and not torch.equal(got["streamed"], want[:, prompt:]):
            self.faults.append(f"{where}: streamed {got['streamed'].tolist()}, and returned {want[:, prompt:].tolist()}")
        if pieces is not None and text != pieces:
            self.faults.append(f"{where}: streamed {text}, Python {pieces}")

    def is_tie(self, model, inputs, said, extra, question):
        """Whether both agree in fp64: then two tokens lay within the rounding of fp32."""
        self.ask(**self.opened, dtype="float64")
        model = type(model).from_pretrained(self.opened["open"], dtype=torch.float64, **self.theirs).eval()
        want, got, _, _ = self.both(model, inputs, said, extra, question)
        self.ask(**self.opened)
        return want.shape == got["ids"].shape and torch.equal(want, got["ids"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--least", type=int, default=1, help="how many rows must have been compared")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    draw, rows, ties, faults, probe = random.Random(arguments.seed), 0, 0, [], Probe(arguments.probe)
    torch.manual_seed(arguments.seed)
    for _ in range(arguments.rounds):
        for kind in [arguments.only] if arguments.only else KINDS:
            with tempfile.TemporaryDirectory() as scratch:
                comparison = Comparison(probe, pathlib.Path(scratch), draw)
                comparison.run(kind, 12)
                rows += comparison.rows
                ties += comparison.ties
                faults += comparison.faults
    for fault in faults[:20]:
        print(fault)
    print(f"{rows} rows compared, of which {ties} differ in fp32 and agree in fp64; {len(faults)} faults")
    return 1 if faults or rows < arguments.least or ties > 2 + rows / 200 else 0


if __name__ == "__main__":
    sys.exit(main())
