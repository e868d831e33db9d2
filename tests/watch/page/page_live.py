#!/usr/bin/env python3
"""Checks the page of `accelerate report` with Python's parsers, and against a run of Python's own Trainer.

usage: page_live.py PROGRAM page|python

page: the page is HTML whose elements match, its SVGs are XML, nothing in it asks the network, its texts can be read in both
colour schemes, it is small and soon made. python: a Trainer of Transformers trains, and the page has the numbers of its
log_history. Exits 77 with the reason where Transformers is not installed.
"""
import html
import html.parser
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "run_log"))
import sample_runs  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
VOID = {"meta", "br", "img", "input", "link", "hr"}


def report(run, *words):
    subprocess.run([PROGRAM, "report", str(run), *words], check=True, stdout=subprocess.DEVNULL)
    run = pathlib.Path(run)  # A checkpoint holds nothing but what was saved: its page lies beside it.
    page = run.parent / f"{run.name}.html" if run.name.startswith("checkpoint-") else run / "report.html"
    return page.read_text(encoding="utf-8")


class Elements(html.parser.HTMLParser):
    """Fails where an end does not match; collects elements and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> ends another element: {self.open[-3:]}"


def elements_of(page):
    parser = Elements()
    parser.feed(page)
    parser.close()
    assert parser.open == [], parser.open
    return parser.seen


def check_elements(page):
    assert page.startswith("<!DOCTYPE html>")
    allowed = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "p", "h1", "h2", "h3", "span", "small", "b",
               "div", "dl", "dt", "dd", "ul", "li", "figure", "figcaption", "svg", "path", "progress", "details", "summary", "table",
               "thead", "tbody", "tr", "th", "td", "script"}
    seen = elements_of(page)
    assert {tag for tag, _ in seen} <= allowed, {tag for tag, _ in seen} - allowed
    assert sum(tag == "script" for tag, _ in seen) == 1
    for tag, attributes in seen:
        assert not any(name.startswith("on") or name in ("src", "href") for name in attributes), (tag, attributes)


def svgs_of(page):
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def check_svgs(page, least):
    svgs = svgs_of(page)
    assert len(svgs) >= least, len(svgs)
    for svg in svgs:
        for path in svg.iter("path"):
            assert re.fullmatch(r"[MLHVhZ0-9. -]+", path.get("d")), path.get("d")[:80]


def check_no_network(page):
    for word in ("http://", "https://", "url(", "@import", "//cdn", "fetch(", "XMLHttpRequest", "import("):
        assert word not in page, word


def colours_of(css, scheme):
    block = css.split("prefers-color-scheme: dark")[1] if scheme == "dark" else css.split("@media")[0]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block.split("* {")[0]))


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def check_colours(page):
    """WCAG 2: texts at least 4.5 to 1 on what lies behind them, curves 3 to 1."""
    css = re.search(r"<style>(.*?)</style>", page, re.DOTALL).group(1)
    light, dark = colours_of(css, "light"), colours_of(css, "dark")
    assert light.keys() == dark.keys() and len(light) >= 16, (light.keys() ^ dark.keys())
    assert luminance(light["page"]) > 0.8 and luminance(dark["page"]) < 0.05
    for colours in (light, dark):
        for behind in ("page", "card", "chosen"):
            for text in ("text", "muted", "good", "busy", "warning", "bad"):
                assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind, contrast(colours[text], colours[behind]))
        for curve in ("s1", "s2", "s3", "s4", "s5", "s6"):
            assert contrast(colours[curve], colours["card"]) >= 3, curve


def points_of(page):
    """{title: [(xs, ys), …]} of all charts."""
    charts = re.findall(r"<h3>(.*?)(?: <small>.*?)?</h3>.*?data-points=\"(.*?)\"", page, re.DOTALL)
    return {html.unescape(title): json.loads(html.unescape(points)) for title, points in charts}


def check_values(page):
    """The page has the log's numbers, without the steps that were done again."""
    points = points_of(page)
    steps, losses = points["Loss"][0]
    assert steps == list(range(10, 1001, 10)), steps
    assert losses.count("nan") == 1 and all(isinstance(x, float) or x == "nan" for x in losses)
    assert points["eval_accuracy"][0][0] == list(range(100, 1001, 100))
    assert "1.54k trained" in page
    assert page.count("★ best") == 1 and "rank 1 was lost" not in page  # Superseded.


def check_pages(folder):
    sample_runs.whole_run(folder / "whole")
    sample_runs.hostile_run(folder / "hostile")
    for name, charts in (("whole", 8), ("hostile", 3)):
        page = report(folder / name)
        check_elements(page)
        check_svgs(page, charts)
        check_no_network(page)
        check_colours(page)
        assert page == report(folder / name), "two pages of one log differ"
    check_values(report(folder / "whole"))


def best_seconds(call):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def check_speed(folder):
    sample_runs.whole_run(folder / "long", steps=100_000, every=10)
    seconds = best_seconds(lambda: report(folder / "long"))
    size = (folder / "long" / "report.html").stat().st_size
    print(f"10,000 logs: {seconds * 1000:.0f} ms, {size / 1000:.0f} kB")
    assert size < 2_000_000


def train_in_python(folder):
    """The log_history of a Trainer that trains a small model for 12 steps."""
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"skipped: {error}; scripts/setup installs it")
        sys.exit(77)

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x=None, labels=None):
            y = self.weight * x
            return {"loss": ((y - labels) ** 2).mean(), "logits": y}

    torch.manual_seed(0)
    rows = [{"x": torch.tensor([float(i % 7)]), "labels": torch.tensor([3.0 * (i % 7)])} for i in range(32)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=12, per_device_train_batch_size=4, logging_steps=2, eval_strategy="steps", eval_steps=4,
        save_steps=4, load_best_model_at_end=True, metric_for_best_model="mae", greater_is_better=False, report_to=[], use_cpu=True,
        learning_rate=0.1, disable_tqdm=True, remove_unused_columns=False)
    trainer = transformers.Trainer(
        Line(), arguments, train_dataset=rows, eval_dataset=rows[:8],
        compute_metrics=lambda p: {"mae": float(abs(p.predictions - p.label_ids).mean()), "never": math.nan})
    trainer.train()
    trainer.save_state()
    return trainer.state


def check_python(folder):
    state = train_in_python(folder)
    points = points_of(report(folder))
    history = state.log_history

    def same(title, series, key):
        steps, values = points[title][series]
        entries = [entry for entry in history if key in entry]
        assert steps == [entry["step"] for entry in entries], (title, steps)
        for shown, entry in zip(values, entries):
            assert shown == "nan" or math.isclose(shown, entry[key], rel_tol=1e-5), (title, shown, entry[key])
        print(f"{title}: {len(values)} values of {key} are equal")

    same("Loss", 0, "loss")
    same("Loss", 1, "eval_loss")
    same("Learning rate", 0, "learning_rate")
    same("Gradient norm", 0, "grad_norm")
    same("eval_mae", 0, "eval_mae")
    assert points["eval_never"][0][1] == ["nan"] * 3
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"at step {state.best_global_step}" in page and "Best eval_mae" in page
    assert all(f"checkpoint-{step}" in page for step in (4, 8, 12)) and page.count("★ best") == 1
    best = pathlib.Path(state.best_model_checkpoint)
    assert re.search(rf"{best.name}</td>.*?★ best", page) is not None
    assert points_of(report(best))["Loss"][0][0][-1] == state.best_global_step  # A checkpoint's own state.


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if sys.argv[2] == "python":
            check_python(folder)
        else:
            check_pages(folder)
            check_speed(folder)
    print("ok")


if __name__ == "__main__":
    main()
