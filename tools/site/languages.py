"""A Sphinx extension: the language of a page, and the way to the same page in the other one."""

# What the theme and our templates say, in Chinese.
WORDS = {
    "Next": "下一页", "Previous": "上一页", "Home": "首页", "On this page": "本页目录", "Back to top": "回到顶部", "Search": "搜索",
    "Made with ": "使用 ", "Task, name or error": "任务、名称或错误", "Contents": "目录", "Menu": "菜单", "Expand": "展开",
    "Light mode": "浅色", "Dark mode": "深色", "Auto light/dark mode": "自动", "Toggle site navigation sidebar": "显示或隐藏导航栏",
    "Toggle table of contents sidebar": "显示或隐藏目录", "Skip to content": "跳到正文",
}


def in_chinese(words, **values):
    return WORDS.get(words, words) % values if values else WORDS.get(words, words)


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
        context["_"] = context["gettext"] = in_chinese


def setup(app):
    app.connect("html-page-context", add_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
