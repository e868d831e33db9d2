#!/usr/bin/env python3
"""Looks at the built site in Chromium: 1280 and 360 pixels wide, light and dark.

usage: site_browser.py SITE [--all]

Pages render and do not scroll sideways, the console has no message, text has a contrast of 4.5 (large text 3), the
filter of names filters, and what newcomers type finds its page among the first three hits of the search. With --all looks at every page
instead of one of each kind. Exits 77 where there is no Chromium.
"""
import functools
import html
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import questions

# One page of each kind.
PAGES = ["index.html", "first_program.html", "training_loop.html", "training_arguments.html", "coming_from_python.html",
         "api/index.html", "api/accelerator/accelerator.html", "api/data/loader_options.html", "benchmarks/fsdp.html",
         "decisions/site.html", "search.html?q=resume"]
WIDTHS = (1280, 360)
PLACES = 3  # Answers of questions are among the first so many hits.
# More words that are typed, and the pages of which one is among the first hits.
WORDS = [
    ("gather_for_metrics", ["api/accelerator/rank_calls.html", "utilities.html"]),
    ("--num_processes", ["flags.html", "launching.html"]),
    ("model does not fit in memory", ["memory.html", "big_models.html", "fsdp.html"]),
    ("ACCELERATE_CPU_HALF", ["environment.html", "training_loop.html"]),
    ("exit code 130", ["exit_codes.html", "launching.html", "command_line.html"]),
    ("load a tokenizer", ["tokenizers.html"]),
    ("save_state", ["checkpoints.html", "api/accelerator/accelerator.html"]),
    ("[accelerate.error/rank-late]", ["errors.html"]),
    ("accelerate.error/hub-gated", ["errors.html"]),
    ("the port is taken", ["errors.html", "machines.html"]),
    ("out of memory", ["memory.html", "utilities.html"]),
    ("several processes", ["launching.html"]),
    ("混合精度", ["zh/training_loop.html"]),
]
ASKED = [*((question.query, question.answers) for question in questions.QUESTIONS), *WORDS]
HARNESS = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><script>
const work = WORK, found = [];
const frame = document.createElement('iframe');
frame.style = 'border:0;height:900px';
document.body.append(frame);
const wait = ms => new Promise(done => setTimeout(done, ms));

function channels(colour) {
  const numbers = colour.match(/[\\d.]+/g).map(Number);
  return numbers.length < 4 ? [...numbers, 1] : numbers;
}
function over(top, below) {
  return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
}
function backgroundOf(element, view) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const colour = channels(view.getComputedStyle(e).backgroundColor);
    if (colour[3] > 0) layers.push(colour);
    if (colour[3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
}
function luminance(colour) {
  const [r, g, b] = colour.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}
function faint(document, view) {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), seen = new Set(), faults = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(element) || element.closest('script,style,title,noscript')) continue;
    seen.add(element);
    const style = view.getComputedStyle(element), box = element.getBoundingClientRect();
    if (style.visibility === 'hidden' || style.opacity === '0' || !box.width || !box.height) continue;
    const below = backgroundOf(element, view), text = over(channels(element.closest('svg') ? style.fill : style.color), below);
    const [high, low] = [luminance(text), luminance(below)].sort((a, b) => b - a), ratio = (high + .05) / (low + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) faults.add(ratio.toFixed(2) + ' ' + element.tagName + '.' + element.className + ': ' + walker.currentNode.textContent.trim().slice(0, 40));
  }
  return [...faults].slice(0, 10);
}
async function open(address) {
  await new Promise(done => { frame.onload = done; frame.src = address; });
  await wait(60);
  return [frame.contentDocument, frame.contentWindow];
}
async function look(page, width) {
  frame.style.width = width + 'px';
  const [document, view] = await open('/' + page), said = {page, width, faint: {}};
  for (const theme of ['light', 'dark']) {
    document.body.dataset.theme = theme;
    await wait(20);
    said.faint[theme] = faint(document, view);
  }
  said.scroll = document.documentElement.scrollWidth;
  said.text = document.querySelector('article').textContent.length;
  said.heading = document.querySelector('h1').getBoundingClientRect().height;
  return said;
}
async function ask(question) {
  const [document] = await open('/search.html?q=' + encodeURIComponent(question));
  for (let i = 0; i < 50 && !document.querySelector('.site-search-hit'); i++) await wait(40);
  return {question, hits: [...document.querySelectorAll('#site-search-results a')].map(a => a.getAttribute('href'))};
}
async function filtered(words) {
  const [document, view] = await open('/coming_from_python.html');
  const input = document.querySelector('.name-filter input');
  input.value = words;
  input.dispatchEvent(new view.Event('input'));
  const rows = [...document.querySelectorAll('tbody tr')];
  return {rows: rows.length, shown: rows.filter(row => row.offsetHeight).map(row => row.cells[0].textContent)};
}
(async () => {
  const result = {pages: [], questions: []};
  for (const [page, width] of work.pages) result.pages.push(await look(page, width));
  frame.style.width = '1280px';
  for (const question of work.questions) result.questions.push(await ask(question));
  result.filter = await filtered('gather_for');
  const element = document.createElement('pre');
  element.id = 'found';
  element.textContent = JSON.stringify(result);
  document.body.append(element);
})().catch(error => { document.body.append(Object.assign(document.createElement('pre'), {id: 'failed', textContent: String(error)})); });
</script></body>"""


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    print("skipped: needs Chromium: apt-get install chromium")
    sys.exit(77)


def looked_at(site, work):
    """What the harness found, and the messages of the console."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/harness":
                return super().do_GET()
            body = HARNESS.replace("WORK", json.dumps(work)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                   f"--user-data-dir={profile}", "--window-size=1400,1000", "--virtual-time-budget=600000", "--dump-dom",
                   f"http://127.0.0.1:{server.server_port}/harness"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    server.shutdown()
    match = re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert match, re.findall(r'<pre id="failed">.*?</pre>', ran.stdout) or ran.stderr[-2000:]
    said = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(match.group(1))), said


def faults_of_pages(pages):
    for page in pages:
        place = f"{page['page']} at {page['width']}"
        if page["scroll"] > page["width"]:
            yield f"{place}: it is {page['scroll']} wide, and scrolls sideways"
        if page["text"] < 40 or page["heading"] < 10:
            yield f"{place}: it is empty"
        for theme, faint in page["faint"].items():
            yield from (f"{place}, {theme}: contrast {one}" for one in faint)


def faults_of_questions(answers):
    wanted = dict(ASKED)
    for answer in answers:
        hits = [urllib.parse.unquote(hit).removeprefix("./") for hit in answer["hits"][:PLACES]]
        if not {*hits, *(hit.partition("#")[0] for hit in hits)} & set(wanted[answer["question"]]):
            yield f"“{answer['question']}” finds {hits}, not {wanted[answer['question']]}"


def faults_of_filter(found):
    if not found["shown"] or any("gather_for" not in name for name in found["shown"]) or len(found["shown"]) > 20:
        yield f"the filter shows {found['shown'][:10]} of {found['rows']} rows"


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    pages = PAGES
    if "--all" in sys.argv:
        pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html") if page.name != "search.html") + PAGES[-1:]
    work = {"pages": [(page, width) for page in pages for width in WIDTHS], "questions": [question for question, _ in ASKED]}
    found, said = looked_at(site, work)
    faults = [*said, *faults_of_pages(found["pages"]), *faults_of_questions(found["questions"]), *faults_of_filter(found["filter"])]
    print("\n".join([*faults, f"{len(found['pages'])} views, {len(found['questions'])} questions, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
