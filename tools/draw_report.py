#!/usr/bin/env python3
"""Draws the picture of the README, docs/report.svg: the head and four charts of a run's report as one SVG.

usage: draw_report.py REPORT.HTML
After scripts/quickstart: tools/draw_report.py build/dev/quickstart/report.html
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = ("Loss", "eval_accuracy", "Step time", "Learning rate")
FIGURES = ("Step", "Epoch", "Duration", "Best", "Samples", "Peak memory")
WIDTH, HEIGHT, GUTTER, TOP, COLUMN, ROW, HEAD = 340, 120, 56, 52, 430, 220, 110
COLOURS = ("#1f6feb", "#c2410c", "#1a7f37", "#8250df", "#bf3989", "#6b7280")
STYLE = """text{font:13px system-ui,"DejaVu Sans",sans-serif;fill:#57606a}.name{font-size:11px}.title{font-size:15px;font-weight:600}.big{font-size:20px;font-weight:600}
.title,.big{fill:#1b2026}.card{fill:#fff;stroke:#d8dee4}path{fill:none;vector-effect:non-scaling-stroke}.grid{stroke:#d8dee4}.saved{stroke:#57606a}
.line{stroke-width:2}.dots{stroke-width:5;stroke-linecap:round}.best{stroke:#1a7f37;stroke-width:2;stroke-dasharray:5 4}.area{fill-opacity:.82}"""


def words(node):
    return " ".join("".join(node.itertext()).split())


def text(x, y, words_of_it, more=""):
    escaped = words_of_it.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escaped}</text>'


def percent(node, side):
    return float(re.search(rf"{side}:([\d.]+)%", node.get("style")).group(1)) / 100


def legend(items):
    """Names of the curves, each beside its colour."""
    x, parts = 14 if len(items) > 2 else GUTTER, []
    for item in items:
        colour = COLOURS[int(item.get("class")[1:]) - 1]
        label = words(item.find("span")) if len(items) > 2 else words(item)
        parts += [f'<rect x="{x}" y="29" width="10" height="10" rx="3" fill="{colour}"/>', text(x + 14, 38, label, ' class="name"')]
        x += 21 + 6 * len(label)
    return parts


def curves(svg):
    """The report's paths, stretched to the size of a chart here."""
    for path in svg.iter("path"):
        kind, *series = path.get("class").split()
        paint = COLOURS[int(series[0][1:]) - 1] if series else ""
        style = f' style="{"fill" if kind == "area" else "stroke"}:{paint}"' if paint else ""
        yield f'<path class="{kind}"{style} transform="translate({GUTTER} {TOP}) scale({WIDTH / 1000} {HEIGHT / 400})" d="{path.get("d")}"/>'


def chart(figure):
    plot = figure.find("div")
    rows, columns = plot.findall("div")
    parts = ['<rect class="card" width="415" height="205" rx="10"/>', text(GUTTER, 22, words(figure.find("figcaption/h3")), ' class="title"')]
    parts += legend(figure.findall("figcaption/ul/li"))
    parts += curves(plot.find("svg"))
    parts += [text(GUTTER - 6, TOP + HEIGHT * percent(label, "top") + 4, words(label), ' text-anchor="end"') for label in rows]
    parts += [text(GUTTER + WIDTH * percent(label, "left"), TOP + HEIGHT + 18, words(label), ' text-anchor="middle"') for label in columns]
    return parts


def head(page):
    title = re.search(r"<h1>(.*?)</h1>", page).group(1)
    facts = " · ".join(re.findall(r"<li>(.*?)</li>", page[page.index('class="facts"'):page.index("</header>")])[:5])
    parts = [text(4, 24, title, ' class="big"'), text(4, 44, facts)]
    tiles = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)(?: <small>.*?)?</dd>", page))
    for place, name in enumerate(name for name in tiles if name.startswith(FIGURES)):
        parts += [text(4 + 142 * place, 72, name), text(4 + 142 * place, 95, tiles[name], ' class="big"')]
    return parts


def main():
    page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    figures = [ElementTree.fromstring(found) for found in re.findall(r'<figure class="chart">.*?</figure>', page, re.DOTALL)]
    charts = {words(figure.find("figcaption/h3")): figure for figure in figures}
    shown = [next(figure for title, figure in charts.items() if title.startswith(name)) for name in SHOWN]
    width, height = 2 * COLUMN, HEAD + 2 * ROW
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 0 {width + 2} {height}" role="img">',
             "<title>Report of a run</title>", f"<style>{STYLE}</style>", f'<rect x="-8" width="{width + 2}" height="{height}" fill="#f4f6f8"/>', *head(page)]
    for place, figure in enumerate(shown):
        parts += [f'<g transform="translate({place % 2 * COLUMN} {HEAD + place // 2 * ROW})">', *chart(figure), "</g>"]
    path = ROOT / "docs" / "report.svg"
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
