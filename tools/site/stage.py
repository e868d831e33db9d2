"""Copies the pages of the repository into one tree of sources for Sphinx, and leads their links there.

The pages stay as GitHub shows them: what the site needs otherwise is changed in the copy. A link to a source file, or
to a folder of them, leads to a page that shows it.
"""
import os
import pathlib
import re
import shutil

import site_map

ROOT = site_map.ROOT
FENCE = re.compile(r"^ *(```|~~~)")
LINK = re.compile(r"(\]\()([^)\s]+)(\))|(\bsrc=\"|\bhref=\")([^\"]+)(\")")
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
PICTURES = (".svg", ".png")
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".py": "python", ".yaml": "yaml", ".cmake": "cmake", ".sbatch": "bash",
             ".sh": "bash", ".json": "json", ".txt": "cmake", ".cu": "cpp"}
LINES_OF_A_FOLDER = 1500  # A folder with more shows the list of its files only.


def outside_code(text, change):
    """`text` with change() applied to what is not in a block of code."""
    parts, kept, fenced = [], [], False

    def flush(as_code):
        block = "".join(kept)
        parts.append(block if as_code else change(block))
        kept.clear()

    for line in text.splitlines(keepends=True):
        if FENCE.match(line):
            if fenced:
                kept.append(line)
                flush(True)
            else:
                flush(False)
                kept.append(line)
            fenced = not fenced
        else:
            kept.append(line)
    flush(fenced)
    return "".join(parts)


class Stage:
    """The tree of sources under `target`. add() writes one page; finish() the sources that pages led to."""

    def __init__(self, target):
        self.target = pathlib.Path(target)
        self.documents = {page: site_map.document(page) for page in site_map.all_pages()}
        self.documents["README.md"] = "index"
        self.sources = {}  # Files and folders that links lead to, and their documents.

    def write(self, document, text, ending=".md"):
        file = self.target / (document + ending)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def add(self, page):
        text = (ROOT / page).read_text(encoding="utf-8")
        if page.startswith("docs/zh/"):  # The site's own link to the other language stands beside the heading.
            text = re.sub(r"^\[English\]\([^)]*\)(?: · )?", "", text, count=1, flags=re.MULTILINE)
        self.write(self.documents[page], self.led(text, page, self.documents[page]))

    def led(self, text, page, document):
        """`text` of `page` without comments, its links leading from `document`."""
        folder = (ROOT / page).parent

        def link(match):
            before, target, after = [part for part in match.groups() if part is not None]
            return before + self.resolved(target, folder, document) + after

        return outside_code(text, lambda block: LINK.sub(link, COMMENT.sub("", block)))

    def resolved(self, target, folder, document):
        if "://" in target or target.startswith(("#", "mailto:")):
            return target
        if target.startswith("made:"):
            return os.path.relpath(site_map.document(target), os.path.dirname(document) or ".") + ".md"
        path, _, anchor = target.partition("#")
        file = (folder / path).resolve()
        if not file.exists() or not file.is_relative_to(ROOT):
            raise FileNotFoundError(f"{document}: {target} does not exist")
        name = str(file.relative_to(ROOT))
        here = os.path.dirname(document) or "."
        if file.suffix in PICTURES:
            copy = self.target / "pictures" / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            return os.path.relpath(f"pictures/{file.name}", here)
        where = self.documents.get(name) or self.document_of(file, name)
        return os.path.relpath(where, here) + ".md" + ("#" + anchor if anchor else "")

    def document_of(self, file, name):
        """The page of a source file or folder."""
        page = {"benchmarks/results": "docs/benchmarks.md"}.get(name)
        if page:
            return self.documents[page]
        if name not in self.sources:
            self.sources[name] = "sources/" + name.replace(".", "_").rstrip("/") + ("/index" if file.is_dir() else "")
        return self.sources[name]

    def finish(self):
        """Writes the pages of sources. Such a page may lead to others."""
        done = set()
        while len(done) < len(self.sources):
            for name in sorted(set(self.sources) - done):
                self.write(self.sources[name], "---\norphan: true\n---\n" + self.source_page(name))
                done.add(name)

    def source_page(self, name):
        file = ROOT / name
        if file.is_file():
            return f"# {name}\n\n" + code(file)
        files = sorted(path for path in file.iterdir() if path.is_file())
        if sum(len(path.read_text(errors="replace").splitlines()) for path in files) <= LINES_OF_A_FOLDER:
            return f"# {name}\n" + "".join(f"\n## {path.name}\n\n{code(path)}" for path in files)
        here = os.path.dirname(self.sources[name])
        rows = (f"- [{path.name}]({os.path.relpath(self.document_of(path, str(path.relative_to(ROOT))), here)}.md)\n"
                for path in files if path.suffix == ".h")
        return f"# {name}\n\n" + "".join(rows)


def code(file):
    text = file.read_text(encoding="utf-8", errors="replace")
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    return f"{fence}{LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
