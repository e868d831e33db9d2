#!/usr/bin/env python3
"""Makes the source package `accelerate-cpp-torch`, which pip compiles against the torch it finds; scripts/package calls it.

usage: make_torch_source.py OUTPUT

Collects the sources that the collectives through shared memory need, the headers of nlohmann-json, and packaging/torch. Prints the
file's path. Needs g++, which says what the headers are.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "packaging/torch"
# Sources that no header of their own names.
FIRST = ("packaging/torch/python_backend.cpp", "accelerate/comm/shared_memory/meet_hosts.cpp", "accelerate/comm/process_card.cpp",
         "accelerate/comm/joining.cpp", *(f"accelerate/comm/shared_memory/kernels_{name}.cpp" for name in ("baseline", "avx2", "avx512")))


def fail(text):
    sys.exit(f"make_torch_source.py: error: {text}")


def sources():
    """The files that FIRST includes, and those that these include; a header brings the source beside it."""
    found, waiting = set(), list(FIRST)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += re.findall(r'^#include "(accelerate/[^"]+)"', (ROOT / name).read_text(), re.MULTILINE)
        beside = name.removesuffix(".h") + ".cpp"
        if name.endswith(".h") and (ROOT / beside).exists():
            waiting.append(beside)
    return {name for name in found if name.startswith("accelerate/")}


def json_headers():
    """Pairs of a path on this machine and one in the package."""
    try:
        said = subprocess.run(["g++", "-M", "-x", "c++", "-"], input="#include <nlohmann/json.hpp>", check=True, text=True, capture_output=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        fail("g++ or the headers of nlohmann-json are missing: run scripts/setup")
    for path in re.findall(r"\S+/nlohmann/\S+", said):
        yield pathlib.Path(path), "nlohmann/" + path.split("/nlohmann/", 1)[1]


def main(words):
    if len(words) != 1:
        sys.exit(__doc__)
    version = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    name = f"accelerate_cpp_torch-{version}"
    files = [(ROOT / source, source) for source in sources()] + list(json_headers())
    files += [(ROOT / notice, notice) for notice in ("LICENSE", "NOTICE")]
    files += [(path, str(path.relative_to(ROOT / PACKAGE))) for path in (ROOT / PACKAGE).rglob("*") if path.suffix in (".py", ".cpp", ".toml", ".md")]
    files.append((pathlib.Path("/usr/share/doc/nlohmann-json3-dev/copyright"), "nlohmann-json.txt"))
    output = pathlib.Path(words[0])
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        stage = pathlib.Path(folder)
        for source, target in files:
            (stage / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, stage / target)
        (stage / "VERSION").write_text(version + "\n")
        (stage / "PKG-INFO").write_text(f"Metadata-Version: 2.4\nName: accelerate-cpp-torch\nVersion: {version}\nDynamic: Requires-Dist\n")
        with tarfile.open(output / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(stage, name)
    print(output / f"{name}.tar.gz")


main(sys.argv[1:])
