"""Runs a tool of tools/ on a small tree of files."""
import pathlib
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def check(tool, files, *options):
    """What `tool` says of a tree of `files`, texts by path."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        return subprocess.run([sys.executable, TOOLS / tool, *options, root], capture_output=True, text=True, check=False)
