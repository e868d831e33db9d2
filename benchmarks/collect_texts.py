#!/usr/bin/env python3
"""Makes the texts that the suite `tokenizers` encodes, of packages of Debian 12: the same bytes on every machine.

usage: collect_texts.py FOLDER

FOLDER/english.txt: 10 MB of paragraphs of an English dictionary with its quotations (dict-gcide).
FOLDER/languages.txt: sayings in English, German, Spanish, Italian, Polish, Czech, Russian, Chinese, Portuguese.
Each text comes once, with a zero byte behind it. Packages are fetched by `apt-get download` and not installed; their
versions are given, and the texts are checked by their SHA-256. Texts that are there already stay.
"""
import gzip
import hashlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ENGLISH = ["dict-gcide=0.48.5+nmu2"]
LANGUAGES = ["fortunes=1:1.99.1-7.3", "fortunes-min=1:1.99.1-7.3", "fortunes-de=0.35-1", "fortunes-es=1.36",
             "fortunes-it=1.99-4.1", "fortunes-pl=0.0.20130525-3", "fortunes-cs=2.0.9-1.1", "fortunes-ru=1.52-3.1",
             "fortunes-zh=2.98", "fortunes-br=20220821"]
SHA256 = {"english.txt": "aa88c07f94ba576438f2f546315a6030dd1016f1bbe8fd7a5e49572843b4698b", "languages.txt": "6e6570113860395c467f7686541e9343d8f9a6b07396993b8600ff9530857127"}
ENGLISH_BYTES = 10_000_000


def fetch(packages, folder):
    """Unpacks `packages` into `folder`."""
    asked = subprocess.run(["apt-get", "download", *packages], cwd=folder, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        sys.exit(f"collect_texts.py: apt-get cannot download {' '.join(packages)}, of which the texts are made: "
                 f"{asked.stderr.strip().splitlines()[-1]} They are packages of Debian 12; `apt-get update` may help.")
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)


def paragraphs(folder):
    """Paragraphs of running text, in an order that is not the alphabet's."""
    text = gzip.open(folder / "usr/share/dictd/gcide.dict.dz").read().decode(errors="replace")
    text = re.sub(r"\[(1913 Webster|WordNet|PJC|Webster)[^\]]*\]|[{}]", "", text)
    found = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    # Backslashes and brackets spell how headwords are pronounced.
    found = [part for part in dict.fromkeys(found) if len(part) >= 48 and not re.search(r"\\|\[", part)]
    random.Random(0).shuffle(found)
    return found


def sayings(folder):
    """What stands between the lines "%" of all files that are UTF-8."""
    found = []
    for path in sorted((folder / "usr/share/games/fortunes").rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix not in (".dat", ".u8"):
            try:
                found += re.split(r"\n%+\n", path.read_bytes().decode())
            except UnicodeDecodeError:
                continue
    return [part for part in dict.fromkeys(found) if part.strip()]


def write(file, texts, limit=None):
    """`texts` as they come, until they have `limit` bytes."""
    parts, size = [], 0
    for text in texts:
        if limit is not None and size >= limit:
            break
        parts.append(text.replace("\0", "").encode() + b"\0")
        size += len(parts[-1])
    content = b"".join(parts)
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[file.name]:
        sys.exit(f"collect_texts.py: {file.name} has the SHA-256 {digest}, {len(content)} bytes, and should have "
                 f"{SHA256[file.name]}: its packages are not the expected ones.")
    file.write_bytes(content)


def is_there(file):
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == SHA256[file.name]


def make(file, packages, texts_of, limit=None):
    if is_there(file):
        return
    with tempfile.TemporaryDirectory() as folder:
        fetch(packages, pathlib.Path(folder))
        write(file, texts_of(pathlib.Path(folder)), limit)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: collect_texts.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make(folder / "english.txt", ENGLISH, paragraphs, ENGLISH_BYTES)
    make(folder / "languages.txt", LANGUAGES, sayings)


if __name__ == "__main__":
    main()
