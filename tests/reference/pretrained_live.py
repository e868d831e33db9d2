#!/usr/bin/env python3
"""Compares folders that Transformers reads with what this library reads: calls, decoding, special tokens, saving.

usage: pretrained_live.py PROBE [--seed S] [--calls N] [--folder FOLDER]...

Makes small tokenizers of each class that older files may name, in the form of today and in the older one, and
SentencePiece models; --folder adds others. Whatever is saved here must load in Python without a warning and give the
same ids. Exits 1 and prints the first differences.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import sentencepiece
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers_live import stress

WORDS = "the quick brown fox doesn't jump over 12 lazy dogs, cafés or naïve ones; it's 1234 times 你好 the fox's end.".split()
TEXT = [" ".join(random.Random(i).choices(WORDS, k=30)) for i in range(200)]


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def train(model, trainer, pre_tokenizer, normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(TEXT, trainer)
    return json.loads(tokenizer.to_str())["model"]


def write(folder, name, value):
    folder.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    (folder / name).write_text(text, encoding="utf-8")


def older_bert(folder, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), **config):
    special = list(special)
    model = train(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False),
                  pre_tokenizers.BertPreTokenizer())
    write(folder, "vocab.txt", "\n".join(sorted(model["vocab"], key=model["vocab"].get)) + "\n")
    write(folder, "tokenizer_config.json", config)


def older_ends(folder, special, normalizer, pre_tokenizer, **config):
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  end_of_word_suffix="</w>", show_progress=False)
    model = train(models.BPE(end_of_word_suffix="</w>"), trainer, pre_tokenizer, normalizer)
    write(folder, "vocab.json", model["vocab"])
    write(folder, "merges.txt", "#version: 0.2\n" + "\n".join(" ".join(merge) for merge in model["merges"]) + "\n")
    write(folder, "tokenizer_config.json", config)


def older_bytes(folder, special, **config):
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    model = train(models.BPE(), trainer, pre_tokenizers.ByteLevel(False))
    write(folder, "vocab.json", model["vocab"])
    write(folder, "merges.txt", "#version: 0.2\n" + "\n".join(" ".join(merge) for merge in model["merges"]) + "\n")
    write(folder, "tokenizer_config.json", config)


def sentencepiece_model(folder, name, kind, **options):
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_prefix=str(folder / "m"), model_type=kind,
                                             minloglevel=2, hard_vocab_limit=False, **options)
    (folder / "m.model").rename(folder / name)
    (folder / "m.vocab").unlink()


def make_older(root):
    older_bert(root / "bert", tokenizer_class="BertTokenizer", model_max_length=24)
    older_bert(root / "bert_cased", tokenizer_class="BertTokenizerFast", do_lower_case=False, tokenize_chinese_chars=False,
               strip_accents=True, clean_up_tokenization_spaces=True, padding_side="left", truncation_side="left")
    older_bert(root / "distilbert", tokenizer_class="DistilBertTokenizer", mask_token={"content": "[MASK]", "lstrip": True, "__type": "AddedToken",
                                                                                     "rstrip": False, "single_word": False, "normalized": False})
    older_bert(root / "named", tokenizer_class="BertTokenizer", boi_token="<boi>", additional_special_tokens=["<e1>"],
               extra_special_tokens={"think": "<think>", "image_token": "the"})
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True, "special": False}
    older_bert(root / "named_added", tokenizer_class="BertTokenizer", image_token="<i>", video_token={"content": "<v>", "__type": "AddedToken"},
               added_tokens_decoder={"300": {"content": "<i>"} | flags, "301": {"content": "<v>"} | flags, "302": {"content": "<w>"} | flags})
    write(root / "bert_by_model", "config.json", {"model_type": "bert"})
    older_bert(root / "bert_by_model")
    write(root / "bert_by_model", "special_tokens_map.json", {"additional_special_tokens": ["<e1>", "<e2>"], "cls_token": "[CLS]"})
    write(root / "bert_by_model", "added_tokens.json", {"<e1>": 200, "<e2>": 201, "foxy": 202})
    older_bytes(root / "gpt2", ["<|endoftext|>"], tokenizer_class="GPT2Tokenizer")
    older_bytes(root / "gpt2_space", ["<|endoftext|>"], tokenizer_class="GPT2Tokenizer", add_prefix_space=True, add_bos_token=True,
                pad_token="<|endoftext|>")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    older_bytes(root / "roberta", special, tokenizer_class="RobertaTokenizer", model_max_length=32)
    older_bytes(root / "bart", special, tokenizer_class="BartTokenizer", add_prefix_space=True, trim_offsets=False)
    older_bytes(root / "qwen2", ["<|endoftext|>", "<|im_start|>"], tokenizer_class="Qwen2Tokenizer",
                additional_special_tokens=["<|im_start|>"])
    older_bytes(root / "codegen", ["<|endoftext|>"], tokenizer_class="CodeGenTokenizer")
    older_bytes(root / "gpt_neox", ["<|endoftext|>", "<|padding|>"], tokenizer_class="GPTNeoXTokenizer")
    older_bytes(root / "blenderbot", special, tokenizer_class="BlenderbotTokenizer")
    older_bytes(root / "deberta", ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], tokenizer_class="DebertaTokenizer")
    older_ends(root / "clip", ["<|startoftext|>", "<|endoftext|>"], normalizers.Lowercase(), pre_tokenizers.ByteLevel(False),
               tokenizer_class="CLIPTokenizer", model_max_length=77, pad_token="<|endoftext|>",
               eos_token={"content": "<|endoftext|>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": True, "__type": "AddedToken"})
    older_ends(root / "openai_gpt", ["<unk>"], normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(),
               tokenizer_class="OpenAIGPTTokenizer")
    older_ends(root / "herbert", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], normalizers.BertNormalizer(lowercase=False, strip_accents=False),
               pre_tokenizers.BertPreTokenizer(), tokenizer_class="HerbertTokenizer")
    older_bert(root / "mpnet", ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], tokenizer_class="MPNetTokenizer")
    older_bert(root / "funnel", ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>"], tokenizer_class="FunnelTokenizer")
    sentencepiece_model(root / "llama", "tokenizer.model", "bpe", vocab_size=400, byte_fallback=True, normalization_rule_name="identity")
    write(root / "llama", "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "pad_token": "<unk>"})
    sentencepiece_model(root / "t5", "spiece.model", "unigram", vocab_size=150, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write(root / "t5", "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"})
    sentencepiece_model(root / "xlm_roberta", "sentencepiece.bpe.model", "unigram", vocab_size=150)
    write(root / "xlm_roberta", "tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"})
    sentencepiece_model(root / "albert", "spiece.model", "unigram", vocab_size=150, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
                        control_symbols=["[CLS]", "[SEP]", "[MASK]"], unk_piece="<unk>", pad_piece="<pad>")
    write(root / "albert", "tokenizer_config.json", {"tokenizer_class": "AlbertTokenizer"})
    for name, said in (("deberta_v2", {}), ("deberta_v2_lower", {"do_lower_case": True, "split_by_punct": True, "add_prefix_space": False})):
        sentencepiece_model(root / name, "spm.model", "unigram", vocab_size=150, pad_id=0, bos_id=1, eos_id=2, unk_id=3,
                            pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
        write(root / name, "tokenizer_config.json", {"tokenizer_class": "DebertaV2Tokenizer"} | said)
    return sorted(root.iterdir())


def save_deberta_v2(folder):
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=special, unk_token="[UNK]", show_progress=False)
    vocab = train(models.Unigram(), trainer, pre_tokenizers.Metaspace())["vocab"]
    transformers.DebertaV2Tokenizer(vocab=[tuple(piece) for piece in vocab]).save_pretrained(folder)
    return folder


def described(token):
    return [token.content, token.special, token.lstrip, token.rstrip, token.single_word, token.normalized]


def about(tokenizer):
    limit = tokenizer.model_max_length
    return {"special_tokens_map": {key: str(value) for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)},
            "all_special_tokens": [str(token) for token in tokenizer.all_special_tokens], "all_special_ids": tokenizer.all_special_ids,
            "vocab_size": tokenizer.vocab_size, "size": len(tokenizer),
            "added": {str(key): described(value) for key, value in tokenizer.added_tokens_decoder.items()},
            "model_max_length": None if limit > 1e20 else limit, "padding_side": tokenizer.padding_side, "truncation_side": tokenizer.truncation_side,
            "pad_token_id": tokenizer.pad_token_id, "model_input_names": tokenizer.model_input_names,
            "single": tokenizer.num_special_tokens_to_add(), "pair": tokenizer.num_special_tokens_to_add(True)}


def random_call(draw, texts):
    splits, count = draw.random() < 0.3, None if draw.random() < 0.3 else draw.randint(1, 4)

    def some():
        one = (lambda: draw.choice(texts).split(" ")[: draw.randint(0, 12)]) if splits else (lambda: draw.choice(texts))
        return one() if count is None else [one() for _ in range(count)]

    request = {"text": some()} | ({"is_split_into_words": True} if splits else {})
    if draw.random() < 0.4:
        request["text_pair"] = some()
    if draw.random() < 0.15:
        request["text_target"] = some()
        if draw.random() < 0.3:
            request["text_pair_target"] = some()
        if draw.random() < 0.3:
            request["max_target_length"] = draw.randint(6, 20)
        if draw.random() < 0.3:
            del request["text"]
    for key, chance, choices in (("truncation", 0.6, [True, True, False, "only_first", "longest_first", "do_not_truncate"]),
                                 ("padding", 0.5, [True, False, "longest", "max_length", "do_not_pad"]),
                                 ("max_length", 0.6, list(range(5, 60))), ("stride", 0.3, [0, 1, 2]), ("add_special_tokens", 0.2, [False]),
                                 ("pad_to_multiple_of", 0.2, [8, 5]), ("padding_side", 0.2, ["left", "right"]),
                                 ("return_overflowing_tokens", 0.3, [True]), ("return_special_tokens_mask", 0.3, [True]),
                                 ("return_length", 0.1, [True]), ("split_special_tokens", 0.15, [True, False])):
        if draw.random() < chance:
            request[key] = draw.choice(choices)
    if "text_target" in request and "text" in request:
        request.pop("return_overflowing_tokens", None)  # Rows of labels would not be rows of texts.
    return request


def call(tokenizer, request):
    try:
        encoding = tokenizer(**request, return_offsets_mapping=True)
        batch = dict(encoding)
    except BaseException as error:  # A panic of Rust is no Exception.
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"error": str(error)}
    if is_single(request) and not request.get("return_overflowing_tokens"):
        batch = {key: [value] for key, value in batch.items()}
    if "length" in batch:
        batch["length"] = [row if isinstance(row, list) else [row] for row in batch["length"]]
    batch["offset_mapping"] = [[list(pair) for pair in row] for row in batch["offset_mapping"]]
    for name in ("word_ids", "sequence_ids"):
        batch[name] = [getattr(encoding, name)(row) for row in range(len(encoding.encodings))]
    return batch


def is_single(request):
    text = request.get("text", request.get("text_target"))
    return isinstance(text, str) or request.get("is_split_into_words", False) and not (text and isinstance(text[0], list))


def aligned(encoding, labels, all_tokens):
    """What recipes of token classification do by hand."""
    rows = []
    for row in range(len(encoding.encodings)):
        sample = encoding.get("overflow_to_sample_mapping", range(row + 1))[row]
        before, found = None, []
        for word, sequence in zip(encoding.word_ids(row), encoding.sequence_ids(row)):
            word = word if sequence == 0 else None
            found.append(-100 if word is None or word == before and not all_tokens else labels[sample][word])
            before = word
        rows.append(found)
    return rows


def ways(encoding):
    found = []
    for row, one in enumerate(encoding.encodings):
        found += [[one.token_to_word(token), one.token_to_sequence(token)] for token in range(len(one.ids))]
        for i in range(6):
            span = one.word_to_chars(i)
            found.append([span and list(span), encoding.char_to_word(row, i)])
    return found


class Comparison:
    def __init__(self, probe, folder):
        self.probe, self.folder, self.count, self.faults = probe, folder, 0, 0

    def check(self, what, want, have):
        self.count += 1
        if "error" in want and "error" in have or want == have:
            return
        self.faults += 1
        if self.faults <= 4:
            keys = [key for key in set(want) | set(have) if want.get(key) != have.get(key)] if isinstance(have, dict) else []
            print(f"{self.folder.name}: {what!r}"[:600])
            for key in keys[:3]:
                print(f"  {key}:\n    {want.get(key)!r}\n    {have.get(key)!r}"[:400])

    def run(self, tokenizer, texts, draw, calls):
        self.check("about", about(tokenizer), self.probe.ask(about=True))
        for _ in range(calls):
            request = random_call(draw, texts)
            want = call(tokenizer, request)
            self.check(request, want, self.probe.ask(call=request))
        for text in texts[:calls]:
            self.check_decoding(tokenizer, tokenizer(text)["input_ids"])

    def check_words(self, tokenizer, texts, draw, calls):
        for _ in range(calls):
            rows = [draw.choice(texts).split(" ")[:20] for _ in range(draw.randint(1, 4))]
            request = {"text": rows, "is_split_into_words": True}
            if draw.random() < 0.6:
                request |= {"truncation": "only_first", "max_length": draw.randint(8, 20), "return_overflowing_tokens": draw.random() < 0.5,
                            "stride": draw.randint(0, 2)}
            if draw.random() < 0.3:
                request["text_pair"] = [["the", "fox"] for _ in rows]
            labels = [[draw.randint(0, 8) for _ in row] for row in rows]
            for all_tokens in (False, True):
                try:
                    encoding = tokenizer(**request)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    want = {"error": str(error)}
                else:
                    want = {"labels": aligned(encoding, labels, all_tokens), "ways": ways(encoding)}
                self.check(request, want, self.probe.ask(align={"call": request, "labels": labels, "all_tokens": all_tokens}))

    def check_decoding(self, tokenizer, ids):
        for skip in (False, True):
            for clean in (None, False, True):
                request = {"decode": ids, "skip_special_tokens": skip} | ({} if clean is None else {"clean_up": clean})
                want = {"text": tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=clean),
                        "tokens": tokenizer.convert_ids_to_tokens(ids)}
                self.check(request, want, self.probe.ask(**request))

    def check_pad(self, tokenizer, texts, draw):
        rows = tokenizer([draw.choice(texts) for _ in range(3)], truncation=True, max_length=40, return_special_tokens_mask=True)
        for options in ({"padding": True}, {"padding": "max_length", "max_length": 64}, {"padding": "longest", "pad_to_multiple_of": 7},
                        {"padding": True, "padding_side": "left"}):
            columns = {key: [list(row) for row in value] for key, value in rows.items()}
            try:
                want = {key: value for key, value in tokenizer.pad(dict(columns), **options).items()}
            except ValueError as error:
                want = {"error": str(error)}
            self.check(options, want, self.probe.ask(pad={"columns": columns} | options))

    def check_saved(self, tokenizer, texts, target):
        # A token that was special once is skipped for good, whatever it is added as later.
        for special in (True, False):
            tokenizer.add_tokens(["<once>"], special_tokens=special)
            self.probe.ask(add_tokens=["<once>"], special=special)
        self.check_decoding(tokenizer, tokenizer("the <once> fox")["input_ids"])
        self.check("add_tokens", {"": 2}, {"": self.probe.ask(add_tokens=["<new one>", "zzyzx"])})
        self.probe.ask(save=str(target))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded = transformers.AutoTokenizer.from_pretrained(target)
        kept = ("special_tokens_map", "all_special_tokens", "all_special_ids")
        self.check("saved tokens", {key: about(loaded)[key] for key in kept}, {key: self.probe.ask(about=True)[key] for key in kept})
        for text in texts[:40] + ["a <new one> zzyzx"]:
            self.check(["saved", text], {"ids": [loaded(text)["input_ids"]]}, {"ids": self.probe.ask(call={"text": text})["input_ids"]})


def compare(probe, folder, args, scratch):
    comparison = Comparison(probe, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    opened = probe.ask(open=str(folder))
    comparison.check("open", {}, opened)
    if opened:
        print(opened)
        return comparison
    draw = random.Random(args.seed)
    texts = TEXT[:20] + list(stress(150, args.seed, tokenizer.all_special_tokens)) + ["", " ", "a  b", " x"]
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    comparison.run(tokenizer, texts, draw, args.calls)
    comparison.check_words(tokenizer, texts, draw, args.calls // 3)
    comparison.check_pad(tokenizer, texts, draw)
    comparison.check_saved(tokenizer, texts, scratch / f"saved_{folder.name}")
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--folder", action="append", default=[], type=pathlib.Path)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        folders = make_older(scratch / "older")
        for folder in list(folders):
            today = scratch / "today" / folder.name
            transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(today)
            folders.append(today)
        folders.append(save_deberta_v2(scratch / "today" / "deberta-v2"))
        for folder in folders + args.folder:
            probe = Probe(args.probe)
            comparison = compare(probe, folder, args, scratch)
            probe.process.stdin.close()
            print(f"{folder.parent.name}/{folder.name}: {comparison.count} answers compared, {comparison.faults} differ", flush=True)
            failed += comparison.faults
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
