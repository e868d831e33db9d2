"""Sphinx' settings. build.py writes the sources that they are for."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "accelerate.cpp"
author = "the authors of accelerate.cpp"
html_title = "accelerate.cpp"
extensions = ["myst_parser", "search_index", "languages", "sidebar"]
templates_path = ["templates"]
html_static_path = ["static"]
html_theme = "furo"
html_css_files = ["site.css"]
html_js_files = ["search.js", "filter.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_permalinks_icon = "#"
html_use_index = False
smartquotes = False  # Messages and flags are copied from the page.
nitpicky = False
highlight_language = "text"
myst_heading_anchors = 6  # Named as GitHub names them.
myst_enable_extensions = ["colon_fence", "attrs_inline", "attrs_block"]
suppress_warnings = ["misc.highlighting_failure"]
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"font-stack": "system-ui, -apple-system, 'Segoe UI', 'Noto Sans CJK SC', 'Source Han Sans SC', 'PingFang SC', "
                                             "'Microsoft YaHei', 'WenQuanYi Micro Hei', sans-serif"},
}
html_sidebars = {"**": ["sidebar/brand.html", "site_search.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
                        "sidebar/scroll-end.html"]}
