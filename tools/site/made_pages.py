"""Pages that the site alone has: its home, and what is made from headers and tables."""
import os
import pathlib
import re

import api_pages
import plots
import python_names
import site_map

ROOT = site_map.ROOT
HOME = pathlib.Path(__file__).resolve().parent / "home.md.in"
EXIT_CODES = ["docs/launching.md", "docs/command_line.md"]


def relative(document, here):
    return os.path.relpath(document, os.path.dirname(here) or ".") + ".md"


def title_of(text):
    return next(line[2:] for line in text.splitlines() if line.startswith("# "))


def formats_page(tree):
    lines = ["# Formats", "", "What lies on disk, byte by byte.", ""]
    for page in site_map.children("docs/formats"):
        text = (ROOT / page).read_text(encoding="utf-8")
        lines.append(f"- [{title_of(text)}]({relative(tree.documents[page], 'formats')})")
    return "\n".join(lines) + "\n"


def exit_codes_page(tree):
    """The tables of exit codes of all pages that have one."""
    out = ["# Exit codes", "", "With which code the launcher, the commands and programs of `run_main` end.", ""]
    for page in EXIT_CODES:
        text = (ROOT / page).read_text(encoding="utf-8")
        table = re.search(r"^\| exit code \|.*?(?=\n\n|\n#)", text, re.DOTALL | re.MULTILINE).group()
        out += [f"## {title_of(text)}", "", tree.led(table, page, "exit_codes"), "", f"From [{title_of(text)}]({tree.documents[page]}.md).", ""]
    words = [item for _, items in api_pages.contents().values() for item in items if item.name == "run_main"]
    return "\n".join([*out, "## A program with `run_main`", "", api_pages.paragraphs(words[0].doc, "exit_codes"), ""])


def section_of(text, title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE).group(1).strip()


def home(tree):
    """home.md.in, with the parts of the README that it names, so that nothing is said twice."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    intro, picture = re.search(r"^# .*?\n(.*?)\n\n(!\[.*?)(?=\n## )", readme, re.DOTALL).groups()
    intro = re.sub(r"^.*README\.zh\.md.*\n+", "", intro, flags=re.MULTILINE)  # Each page leads to the other language itself.
    parts = {"intro": "{.home-lead}\n" + intro, "picture": picture.strip()}
    text = tree.led(without_absent(HOME.read_text(encoding="utf-8")), "tools/site/home.md.in", "index")
    text = re.sub(r"(## What do you want to do\?\n\n)", r"\1{.home-cards}\n", text)

    def part(match):
        words = parts.get(match.group(1)) or section_of(readme, match.group(1))
        return tree.led(words, "README.md", "index")

    text = re.sub(r"^\[\[(.*?)\]\]$", part, text, flags=re.MULTILINE)
    return text + "".join("\n" + toctree(name, pages, tree, "index", 2) for name, pages in site_map.sections())


def without_absent(text):
    """Cards whose page is not there keep their words without a link."""
    for target in re.findall(r"\]\((\.\./[^)#]+)", text):
        if not (HOME.parent / target).exists():
            text = re.sub(rf"\[([^\]]*)\]\({re.escape(target)}\)", r"\1", text)
    return text


def toctree(caption, pages, tree, here, depth=1):
    """The directive that puts pages under `caption` of the list at the left."""
    rows = []
    for page in pages:
        document = tree.documents.get(page) or site_map.document(page)
        short = site_map.SHORT.get(page)
        rows.append(f"{short} </{document}>" if short else "/" + document)
    head = ["```{toctree}", ":hidden:", f":maxdepth: {depth}"] + ([f":caption: {caption}"] if caption else [])
    return "\n".join([*head, "", *rows, "```", ""])


MAKERS = {"made:formats": formats_page, "made:exit_codes": exit_codes_page, "made:names": python_names.page}


def add_plots(tree):
    for page in site_map.children("benchmarks/results"):
        file = tree.target / (tree.documents[page] + ".md")
        file.write_text(plots.with_plots(file.read_text(encoding="utf-8")), encoding="utf-8")


def write_all(tree):
    api_pages.write_all(tree)  # First: other pages lead to its names.
    for name, make in MAKERS.items():
        tree.write(site_map.document(name), make(tree))
    tree.write("index", home(tree))
    add_plots(tree)
    for folder, parent in site_map.CHILDREN.items():
        document = site_map.document(parent)
        file = tree.target / (document + ".md")
        text = file.read_text(encoding="utf-8") + "\n" + toctree("", site_map.children(folder), tree, document)
        file.write_text(text, encoding="utf-8")
