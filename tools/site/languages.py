"""A Sphinx extension: the language of a page, and the way to the same page in the other one."""


def name_in_english(document):
    """The English page of a Chinese one: zh/install is install, zh/index is the home page."""
    return document.removeprefix("zh/")


def add_language(app, document, template, context, doctree):
    chinese = document.startswith("zh/")
    other = name_in_english(document) if chinese else "zh/" + document
    if other in app.env.found_docs:
        context["other_language"] = ("English" if chinese else "中文", context["pathto"](other))
    if chinese:
        context["language"] = "zh-CN"


def setup(app):
    app.connect("html-page-context", add_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
