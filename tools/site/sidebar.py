"""A Sphinx extension: pages that are not in the list at the left get one list a folder, made once.

Sphinx makes the list anew for each page, which was a fifth of the build. It differs only by the page that is marked.
"""
import os

LISTED_NOWHERE = ("api/", "sources/")


def share_list(app, document, template, context, doctree):
    if not document.startswith(LISTED_NOWHERE) or document == "api/index":
        return
    make, kept = context["toctree"], app.accelerate_lists

    def toctree(**options):
        key = (os.path.dirname(document), *sorted(options.items()))
        if key not in kept:
            kept[key] = make(**options)
        return kept[key]

    context["toctree"] = toctree


def setup(app):
    app.accelerate_lists = {}
    app.connect("html-page-context", share_list, priority=100)  # Before furo, which asks for the list.
    return {"parallel_read_safe": True, "parallel_write_safe": True}
