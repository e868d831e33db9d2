"""A Sphinx extension: the list of pages at the left, made once instead of once a page.

Sphinx makes the list anew for each page, which was a third of the build. It differs by where its links lead from, and
by the page that is marked. On Chinese pages the captions are Chinese.
"""
import re

from sphinx.environment.adapters.toctree import TocTree

import site_map

CAPTION = re.compile(r'(<span class="caption-text">)(.*?)(</span>)')
SECTION = re.compile(r'<p class="caption".*?(?=<p class="caption"|\Z)', re.DOTALL)


def to_root(document):
    return "../" * document.count("/")


def share_list(app, document, template, context, doctree):
    """Gives furo the list in which nothing is marked, its links led from the page's depth. Furo keeps what it makes of
    a list."""
    if "toctree" not in context:
        return

    def toctree(collapse, **options):
        lists = app.accelerate_lists
        if not lists:
            tree = TocTree(app.env).get_toctree_for("no such page", app.builder, collapse, **options)
            lists[""] = app.builder.render_partial(tree)["fragment"]
        root = to_root(document)
        if root not in lists:
            lists[root] = lists[""].replace(' href="', f' href="{root}')
        return lists[root]

    context["toctree"] = toctree


def parent_of(document):
    """The page above it in the list; None for a page of the first level."""
    if document.startswith("api/") and document != "api/index":
        return "api/index"
    return next((site_map.document(parent) for folder, parent in site_map.CHILDREN.items()
                 if document.rpartition("/")[0] == folder.removeprefix("docs/").removesuffix("/results")
                 and document != site_map.document(parent)), None)


def marked(tree, uri, is_page):
    """`tree` with the entry that leads to `uri` marked, and opened if others stand under it."""
    entry = re.compile(rf'<li class="(toctree-l\d[^"]*)"><a class="(reference internal)" href="{re.escape(uri)}">(.*?</a>)(<input )?')

    def mark(found):
        classes, link, rest, box = found.groups()
        classes += " current current-page" if is_page else " current"
        target = "#" if is_page else uri
        return f'<li class="{classes}"><a class="current {link}" href="{target}">{rest}' + ('<input checked="" ' if box else "")

    return entry.sub(mark, tree, count=1)


def in_chinese(tree):
    """`tree` with Chinese captions; the Chinese pages come first."""
    sections = SECTION.findall(tree)
    rest = tree[:tree.index(sections[0])] if sections else ""
    own = [part for part in sections if f">{site_map.CHINESE_CAPTION}<" in part]
    tree = rest + "".join([*own, *(part for part in sections if part not in own)])
    return CAPTION.sub(lambda found: found[1] + site_map.CAPTIONS_IN_CHINESE.get(found[2], found[2]) + found[3], tree)


def mark_page(app, document, template, context, doctree):
    tree = context.get("furo_navigation_tree")
    if not tree or document == "search":
        return
    parent = parent_of(document)
    for page in [*([parent] if parent else []), document]:
        tree = marked(tree, to_root(document) + app.builder.get_target_uri(page), page == document)
    context["furo_navigation_tree"] = in_chinese(tree) if document.startswith("zh/") else tree


def setup(app):
    app.accelerate_lists = {}
    app.connect("html-page-context", share_list, priority=100)  # Before furo, which asks for the list.
    app.connect("html-page-context", mark_page, priority=900)  # After furo.
    return {"parallel_read_safe": True, "parallel_write_safe": True}
