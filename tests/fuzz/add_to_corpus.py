#!/usr/bin/env python3
"""Adds inputs to the corpus of a fuzzer, tests/fuzz/corpus/NAME.tar.xz. A folder stands for all files in it.

Usage: add_to_corpus.py NAME FILE_OR_FOLDER...
The same inputs give the same archive. An input that the corpus has already is passed over. To replace a corpus, remove the archive first.
"""
import hashlib
import io
import lzma
import pathlib
import sys
import tarfile

CORPORA = pathlib.Path(__file__).resolve().parent / "corpus"


def read(archive):
    """Returns the inputs by their names; none if there is no such archive yet."""
    if not archive.exists():
        return {}
    with tarfile.open(archive) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}


def write(archive, inputs):
    """Writes inputs sorted by name, without times and owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(inputs.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def add(archive, paths):
    """Adds the files at `paths`; returns how many are new, and how many inputs there are now."""
    inputs = read(archive)
    before, known = len(inputs), set(inputs.values())
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            data = file.read_bytes()
            if data not in known:
                inputs[hashlib.sha1(data).hexdigest()] = data  # The name that libFuzzer gives it, too.
                known.add(data)
    if len(inputs) > before:
        write(archive, inputs)
    return len(inputs) - before, len(inputs)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    name, paths = sys.argv[1], [pathlib.Path(word) for word in sys.argv[2:]]
    fuzzers = sorted(source.stem for source in CORPORA.parent.glob("*.cpp"))
    if name not in fuzzers:
        sys.exit(f"'{name}' is not a fuzzer; there are {', '.join(fuzzers)}.")
    if missing := [str(path) for path in paths if not path.exists()]:
        sys.exit(f"There is no file or folder {', '.join(missing)}.")
    new, total = add(CORPORA / f"{name}.tar.xz", paths)
    print(f"{name}: {new} new inputs, {total} in all")


if __name__ == "__main__":
    main()
