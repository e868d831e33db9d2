"""Pages that the site alone has: its home, and what is made from headers and tables."""
import os

import api_pages
import site_map

ROOT = site_map.ROOT


def relative(document, here):
    return os.path.relpath(document, os.path.dirname(here) or ".") + ".md"


def title_of(text):
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))


def first_sentence(text):
    """The first sentence after the title."""
    words = []
    for line in text.split("\n# ", 1)[-1].splitlines()[1:]:
        if line.strip() and not line.startswith(("#", "<", "|", "```", "-")):
            words.append(line.strip())
        elif words:
            break
    sentence = " ".join(words)
    end = sentence.find(". ")
    return sentence if end < 0 else sentence[:end + 1]


def formats_page(tree):
    lines = ["# Formats", "", "What lies on disk, byte by byte.", ""]
    for page in site_map.children("docs/formats"):
        text = (ROOT / page).read_text(encoding="utf-8")
        lines.append(f"- [{title_of(text)}]({relative(tree.documents[page], 'formats')})")
    return "\n".join(lines) + "\n"


def toctree(caption, pages, tree, here, depth=1):
    """The directive that puts pages under `caption` of the list at the left."""
    rows = []
    for page in pages:
        document = tree.documents.get(page) or site_map.document(page)
        short = site_map.SHORT.get(page)
        rows.append(f"{short} </{document}>" if short else "/" + document)
    head = ["```{toctree}", ":hidden:", f":maxdepth: {depth}"] + ([f":caption: {caption}"] if caption else [])
    return "\n".join([*head, "", *rows, "```", ""])


def home(tree):
    text = tree.led((ROOT / "README.md").read_text(encoding="utf-8"), "README.md", "index")
    for name, pages in site_map.sections():
        pages = [page for page in pages if not page.startswith("made:") or page in MAKERS or page == "made:api"]
        text += "\n" + toctree(name, pages, tree, "index", 2)
    return text


MAKERS = {"made:formats": formats_page}


def write_all(tree):
    tree.write("index", home(tree))
    api_pages.write_all(tree)
    for name, make in MAKERS.items():
        tree.write(site_map.document(name), make(tree))
    for folder, parent in site_map.CHILDREN.items():
        document = site_map.document(parent)
        file = tree.target / (document + ".md")
        text = file.read_text(encoding="utf-8") + "\n" + toctree("", site_map.children(folder), tree, document)
        file.write_text(text, encoding="utf-8")
