"""A Sphinx extension: what search.js looks through, one entry a section of a page.

Sphinx' own search reads the pages it found over the network, which a browser refuses for files on disk. This one puts
the text of all sections into one script.
"""
import json
import pathlib

from docutils import nodes
from sphinx.errors import ExtensionError

import site_map

LONGEST_TEXT = 6000  # Characters of one section. Tables of a hundred rows stay whole; source files do not come here.


def sections_of_pages():
    """The section of the site in which each document stands."""
    found = {}
    for name, pages in site_map.sections():
        for page in pages:
            found[site_map.document(page)] = name
            for folder, parent in site_map.CHILDREN.items():
                if parent == page:
                    found.update({site_map.document(child): name for child in site_map.children(folder)})
    return found


def own_text(section):
    """The words of a section without its title and without the sections in it."""
    blocks, skipped = [], (nodes.title, nodes.section, nodes.raw, nodes.comment)
    for child in section.children:
        if not isinstance(child, skipped) and "toctree-wrapper" not in child.get("classes", []):
            blocks += (node.astext() for node in child.findall(nodes.TextElement) if not isinstance(node.parent, nodes.TextElement))
    return " ".join(" ".join(blocks).split())[:LONGEST_TEXT]


def entries_of(number, document, doctree, asked):
    """Number of the page, anchor, heading, text of each section, and the words of `asked` that it answers to, if any."""
    for section in doctree.findall(nodes.section):
        heading = next(section.findall(nodes.title)).astext()
        anchor = "" if isinstance(section.parent, nodes.document) else section["ids"][0]
        words = asked.pop(document + ("#" + anchor if anchor else ""), None)
        yield [number, anchor, heading, own_text(section)] + ([words] if words else [])


def write(app, error):
    if error or app.builder.name != "html":
        return
    stands, pages, entries, asked = sections_of_pages(), [], [], dict(site_map.ASKED_AS)
    for document in sorted(app.env.found_docs):
        if document.startswith("sources/"):
            continue
        title = app.env.titles[document].astext()
        group = "Reference" if document.startswith("api/") else stands.get(document, "")
        entries += entries_of(len(pages), document, app.env.get_doctree(document), asked)
        pages.append([document + ".html", title, group])
    for place in asked:
        raise ExtensionError(f"site_map.ASKED_AS names {place}, and there is no such section")
    text = json.dumps({"pages": pages, "entries": entries}, ensure_ascii=False, separators=(",", ":"))
    (pathlib.Path(app.outdir) / "_static" / "search_data.js").write_text(f"window.siteSearchData = {text};\n", encoding="utf-8")


def own_search_only(app):
    app.builder.search = False


def setup(app):
    app.connect("builder-inited", own_search_only)
    app.connect("html-collect-pages", lambda app: [("search", {"title": "Search"}, "site_search_page.html")])
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
