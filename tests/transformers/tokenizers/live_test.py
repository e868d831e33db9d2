#!/usr/bin/env python3
"""Compares tokenizers with the originals in Python, and asserts how much was compared.

usage: live_test.py fetch|components|fortunes|stress|random|folders|sections|sentencepiece BUILD

fetch          gets the real tokenizers, and writes a tokenizer.json of each: the others read them
components     one small tokenizer.json for each component and set of options
fortunes       every line of the fortunes files through real tokenizers
stress         generated lines that are hard to cut through real tokenizers
random         the same with a new seed in each round, through random components too: for five seconds, extended for a minute
folders        folders as AutoTokenizer opens, calls and saves them
sections       the sections `padding` and `truncation` beside tokenizer_config.json
sentencepiece  SentencePiece models, with SentencePiece itself as the oracle

With ACCELERATE_TEST_EXTENDED=1 in full (20,000 generated lines for each real tokenizer), otherwise a part. Exits 77 where
the originals or the real tokenizers cannot be had.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

FORTUNES = pathlib.Path("/usr/share/games/fortunes")
REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "reference"
TOOLS = REFERENCE.parent.parent / "tools"
EXTENDED = os.environ.get("ACCELERATE_TEST_EXTENDED") == "1"
SKIP = 77
WRITTEN = "real_tokenizers_written"  # The folder of what `fetch` writes, below the build's.


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def run(script, *words):
    """Prints what the script says where something differs; returns the number of texts or answers compared."""
    done = subprocess.run([sys.executable, str(REFERENCE / script), *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, env=os.environ | {"RUST_BACKTRACE": "0"})
    lines = done.stdout.splitlines()
    compared = [int(count) for line in lines for count in re.findall(r"(\d+) (?:texts|answers) compared, 0 differ", line)]
    if done.returncode != 0:
        print("\n".join(line for line in lines if not line.endswith(" 0 differ")))
        sys.exit(f"{script} {' '.join(map(str, words))[:200]}: exit {done.returncode}")
    return len(compared), sum(compared)


def real_tokenizers(build):
    folder = build / "real_tokenizers"
    fetched = subprocess.run([sys.executable, str(TOOLS / "fetch_models.py"), str(folder)], capture_output=True, text=True)
    if fetched.returncode != 0:
        skip(f"the real tokenizers cannot be had: {fetched.stderr.strip()[-300:]}")
    return folder


def leave_out_unmatched(path):
    """Drops the key of ours that Python passes over: the originals must cut texts by the same file."""
    text = json.loads(path.read_text(encoding="utf-8"))
    text["model"].pop("unmatched", None)
    path.write_text(json.dumps(text, ensure_ascii=False), encoding="utf-8")


def fetch(build, scratch):
    """Real tokenizers, and a tokenizer.json beside them for each that has older files, written by Python or by us."""
    folder, written = real_tokenizers(build), build / WRITTEN
    import transformers
    transformers.logging.set_verbosity_error()
    for name in ("gpt2", "qwen"):
        transformers.AutoTokenizer.from_pretrained(folder / name).save_pretrained(written / name)
    sys.path.insert(0, str(REFERENCE))
    from pretrained_live import Probe
    for name in ("mistral_v3", "jamba_j2"):
        probe = Probe(build / "tests" / "pretrained_probe")
        assert probe.ask(open=str(folder / name)) == {} and probe.ask(save=str(written / name)) == {}
        leave_out_unmatched(written / name / "tokenizer.json")
    return len(list(folder.iterdir()))


def tokenizer_files(build):
    """A tokenizer.json of each real tokenizer."""
    return [real_tokenizers(build) / name / "tokenizer.json" for name in ("minilm", "anthropic", "deepseek")] + [
        build / WRITTEN / name / "tokenizer.json" for name in ("gpt2", "qwen", "mistral_v3", "jamba_j2")]


def fortune_files():
    files = sorted(path for path in FORTUNES.rglob("*") if path.is_file() and not path.is_symlink() and path.suffix == "")
    if not files:
        skip("there are no fortunes; apt-get install fortunes")
    return files


def lines_of(files):
    return [word for file in files for word in ("--lines", file)]


def components(build, scratch):
    subprocess.run([sys.executable, str(REFERENCE / "tokenizer_components.py"), str(scratch)], check=True, stderr=subprocess.DEVNULL)
    files = sorted(scratch.glob("*.json"))
    texts = 300 if EXTENDED else 25
    compared, count = run("tokenizers_live.py", build / "tests" / "tokenizer_probe", *files, "--stress", texts)
    assert compared == len(files) >= 533 and count == texts * len(files), (compared, count)
    return count


def fortunes(build, scratch):
    files, lines = tokenizer_files(build), fortune_files()
    # Every line through one, and the files of a few topics through the others.
    probe = build / "tests" / "tokenizer_probe"
    compared, count = run("tokenizers_live.py", probe, *(files if EXTENDED else files[:1]), "--stress", 0, *lines_of(lines))
    assert count >= 50_000 * compared > 0, (compared, count)
    if not EXTENDED:
        others, more = run("tokenizers_live.py", probe, *files[1:], "--stress", 0,
                           *lines_of([file for file in lines if file.name in ("debian", "paradoxum")]))
        assert others == len(files) - 1 and more > 500 * others, (others, more)
        count += more
    return count


def stress(build, scratch):
    files = tokenizer_files(build)
    texts = 20_000 if EXTENDED else 700
    compared, count = run("tokenizers_live.py", build / "tests" / "tokenizer_probe", *files, "--stress", texts)
    assert compared == len(files) == 7 and count == texts * len(files), (compared, count)
    return count


def random_rounds(build, scratch):
    seconds = 60 if EXTENDED else 5
    subprocess.run([sys.executable, str(REFERENCE / "tokenizer_components.py"), str(scratch)], check=True, stderr=subprocess.DEVNULL)
    small, real, count, end = sorted(scratch.glob("*.json")), tokenizer_files(build), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        seed = random.SystemRandom().randrange(2**32)
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        chosen = (real if EXTENDED else chance.sample(real, 2)) + chance.sample(small, 40)
        count += run("tokenizers_live.py", build / "tests" / "tokenizer_probe", *chosen, "--stress", 200, "--seed", seed)[1]
    assert count > 80 * seconds, count
    return count


def folders(build, scratch):
    real = real_tokenizers(build)
    words = [word for name in ("minilm", "gpt2", "qwen") for word in ("--folder", real / name)]
    compared, count = run("pretrained_live.py", build / "tests" / "pretrained_probe", "--calls", 300 if EXTENDED else 30, *words)
    assert compared == 56 and count > 5_000, (compared, count)
    return count


def sections(build, scratch):
    folders = 1000 if EXTENDED else 60
    compared, count = run("sections_live.py", build / "tests" / "pretrained_probe", "--folders", folders)
    assert compared == 1 and count > 4 * folders, (compared, count)
    return count


def sentencepiece(build, scratch):
    real = real_tokenizers(build)
    models = [real / name / "tokenizer.model" for name in ("mistral_v1", "mistral_v3")]
    texts = 5_000 if EXTENDED else 300
    made = 100 if EXTENDED else 20
    compared, count = run("sentencepiece_live.py", build / "tests" / "pretrained_probe", *models, "--made", made, "--stress", texts,
                          *lines_of([file for file in fortune_files() if EXTENDED or file.name in ("debian", "science")]))
    assert compared == 2 + made and count > compared * texts, (compared, count)
    return count


def main():
    kind, build = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    try:
        import sentencepiece as _, tokenizers as _, transformers as _  # noqa: F401
    except ImportError as error:
        skip(f"the originals are missing: {error}")
    kinds = {"fetch": fetch, "components": components, "fortunes": fortunes, "stress": stress, "random": random_rounds,
             "folders": folders, "sections": sections, "sentencepiece": sentencepiece}
    with tempfile.TemporaryDirectory() as scratch:
        print(f"{kind}: {kinds[kind](build, pathlib.Path(scratch))}" + ("" if kind == "fetch" else " compared, none differs"))


if __name__ == "__main__":
    main()
