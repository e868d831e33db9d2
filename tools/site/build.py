#!/usr/bin/env python3
"""Builds the documentation's site from the pages, headers and tables of the repository. Needs no network.

usage: build.py [--output FOLDER] [--program ACCELERATE]

Run it by scripts/docs, which has the Python with Sphinx. Exits 1 if a link leads nowhere or Sphinx warns.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import made_pages  # noqa: E402
import site_map  # noqa: E402
import stage  # noqa: E402


def staged(folder):
    """Writes the whole tree of sources."""
    shutil.rmtree(folder, ignore_errors=True)
    tree = stage.Stage(folder)
    for page in site_map.all_pages():
        tree.add(page)
    made_pages.write_all(tree)
    tree.finish()
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=site_map.ROOT / "build" / "site")
    arguments = parser.parse_args()
    began = time.monotonic()
    output = arguments.output.resolve()
    work = output.with_name(output.name + "_work")
    tree = staged(work / "source")
    shutil.rmtree(output, ignore_errors=True)  # A page that went must not stay.
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(HERE), "-d", str(work / "doctrees"), "-j", "auto", "-E",
               "-q", "-W", "--keep-going", str(work / "source"), str(output)]
    if subprocess.run(command).returncode != 0:
        sys.exit("the site was not built without faults: see the warnings above")
    pages = len(list(output.rglob("*.html")))
    print(f"{output}/index.html: {pages} pages in {time.monotonic() - began:.0f} s")
    return tree


if __name__ == "__main__":
    main()
