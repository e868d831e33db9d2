"""Draws the suite comm: a panel a collective, time by size, ours, Gloo and what the memory allows.

usage: collectives.py POINTS.json PICTURE.png
"""
import json
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402

IN_PLACE = "_in_place"
RANKS = {2: "-", 8: "--"}
# Colours that are told apart in print without colour too, by their lightness and their marks.
GLOO, OURS, OURS_IN_PLACE, BOUND = ({"color": "#d95f02", "marker": "s"}, {"color": "#1b6ca8", "marker": "o"},
                                    {"color": "#0a2f51", "marker": "D"}, {"color": "#999999", "marker": ""})
STYLES = {"Gloo": GLOO, "ours": OURS, "ours, in place": OURS_IN_PLACE, "memory bound": BOUND}


def curve(axes, points, key, ranks, style):
    points = sorted(points, key=lambda point: point["kib"])
    axes.plot([point["kib"] * 1024 for point in points], [point[key] for point in points], RANKS[ranks],
              linewidth=1.4, markersize=4, **style)


def panel(axes, points, name):
    for ranks in RANKS:
        here = [point for point in points if point["ranks"] == ranks]
        private = [point for point in here if point["name"] == name]
        in_place = [point for point in here if point["name"] == name + IN_PLACE]
        curve(axes, private, "bound", ranks, BOUND)
        curve(axes, private, "theirs", ranks, GLOO)
        curve(axes, private, "ours", ranks, OURS)
        curve(axes, in_place, "ours", ranks, OURS_IN_PLACE)
    axes.set_title(name, fontsize=10)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([4 << 10, 256 << 10, 4 << 20, 64 << 20], ["4 KiB", "256 KiB", "4 MiB", "64 MiB"], fontsize=7)
    axes.tick_params(axis="y", labelsize=7)
    axes.minorticks_off()
    axes.grid(True, linewidth=0.4, color="#dddddd")


def legend(figure):
    handles = [Line2D([], [], linewidth=1.4, markersize=4, label=label, **style) for label, style in STYLES.items()]
    handles += [Line2D([], [], color="black", linestyle=style, label=f"{ranks} ranks")
                for ranks, style in RANKS.items()]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=9)


def main(source, target):
    with open(source, encoding="utf-8") as file:
        points = json.load(file)["points"]
    names = [name for name in dict.fromkeys(point["name"] for point in points) if not name.endswith(IN_PLACE)]
    figure, grid = pyplot.subplots(3, 3, figsize=(10, 9), sharex=True, sharey=True)
    for axes, name in zip(grid.flat, names, strict=True):
        panel(axes, points, name)
    for axes in grid[:, 0]:
        axes.set_ylabel("seconds a call", fontsize=8)
    legend(figure)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(target, dpi=150)


main(*sys.argv[1:])
