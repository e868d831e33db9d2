#!/usr/bin/env python3
"""Shows the page of `accelerate report` in Chromium: light and dark, 1200 and 400 pixels wide, and moves a pointer over it.

usage: browser_live.py PROGRAM [KEEP]

The pictures are not blank, have their scheme's colours and do not scroll sideways; the console has no message; the read-out
names the values below the pointer; a hostile log adds no element. With KEEP, a folder, the pictures stay there. Exits 77
with the reason where there is no Chromium or no PIL.
"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "run_log"))
import sample_runs  # noqa: E402

DARK, LIGHT = 0, 1  # As Chromium numbers them.
# Moves a pointer over the middle of each chart, and writes down what is then read.
PROBE = """<script>
const said = [];
for (const plot of document.querySelectorAll('.plot')) {
  const box = plot.querySelector('svg').getBoundingClientRect();
  plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2, clientY: box.top + 5}));
  const read = plot.querySelector('.read');
  said.push(read ? read.textContent : null);
  if (plot !== document.querySelector('.plot')) plot.dispatchEvent(new PointerEvent('pointerleave'));
}
const found = {said, width: innerWidth, scrolled: document.documentElement.scrollWidth,
               images: document.images.length, scripts: document.scripts.length,
               dark: matchMedia('(prefers-color-scheme: dark)').matches};
parent.postMessage(JSON.stringify(found), '*');
</script></body>"""
# A window of Chromium is at least 500 wide; a frame in it may be narrower. It hands on what the probe found.
FRAME = """<!DOCTYPE html><body style="margin:0"><iframe src="{page}" style="width:{width}px;height:1400px;border:0"></iframe>
<script>
addEventListener('message', event => {{
  const element = document.createElement('pre');
  element.id = 'found';
  element.textContent = event.data;
  document.body.append(element);
}});
</script></body>"""


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    print("skipped: there is no Chromium; apt-get install chromium")
    sys.exit(77)


def image_module():
    try:
        from PIL import Image
        return Image
    except ImportError as error:
        print(f"skipped: {error}; pip install pillow")
        sys.exit(77)


class Browser:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, page, scheme, width, *words):
        command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
                   "--virtual-time-budget=3000", "--enable-logging=stderr", f"--blink-settings=preferredColorScheme={scheme}",
                   f"--user-data-dir={self.folder / 'profile'}", f"--window-size={width},1400", *words, page.as_uri()]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stderr[-2000:]
        said = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
        assert not said, said
        return ran.stdout

    def framed(self, page, width):
        frame = self.folder / "frame.html"
        frame.write_text(FRAME.format(page=page.as_uri(), width=width), encoding="utf-8")
        return frame

    def probe(self, page, scheme, width):
        probed = self.folder / "probed.html"
        text = page.read_text(encoding="utf-8")
        assert text.count("</body>") == 1
        probed.write_text(text.replace("</body>", PROBE), encoding="utf-8")
        dom = self.run(self.framed(probed, width), scheme, max(width, 600), "--dump-dom")
        return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL).group(1)))

    def picture(self, page, scheme, width, to):
        self.run(self.framed(page, width), scheme, max(width, 600), f"--screenshot={to}")
        picture = image_module().open(to).convert("RGB")
        picture = picture.crop((0, 0, width, picture.size[1]))
        picture.save(to)
        return picture


def check_picture(picture, scheme, width):
    assert picture.size[0] == width, picture.size
    corner = sum(picture.getpixel((3, 3))) / 3
    assert corner < 60 if scheme == DARK else corner > 200, corner
    colours = picture.getcolors(maxcolors=1 << 24)
    assert len(colours) > 200, f"only {len(colours)} colours"
    plain = max(count for count, _ in colours) / (picture.size[0] * picture.size[1])
    assert plain < 0.97, f"{plain:.0%} of the picture is one colour"
    saturated = sum(count for count, colour in colours if max(colour) - min(colour) > 90)
    assert saturated > 1000, "there are no curves"


def check_probe(found, scheme, width):
    assert found["width"] == width, found["width"]
    assert found["scrolled"] <= width, f"the page is {found['scrolled']} wide in a window of {width}"
    assert found["dark"] == (scheme == DARK)
    assert found["images"] == 0 and found["scripts"] == 2, "the page has elements that are not its own"  # The probe is one.
    assert found["said"] and all(found["said"]), found["said"]


def check_reading(found):
    """The read-out in the middle of the first chart, which spans 0 to 1000."""
    lines = found["said"][0].split("\n")
    assert lines[0] == "step 500", lines
    assert re.fullmatch(r"loss 0\.\d+", lines[1]) and re.fullmatch(r"eval_loss 0\.\d+", lines[2]), lines


def main():
    program, keep = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else None
    image_module()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pictures = pathlib.Path(keep) if keep else folder
        pictures.mkdir(parents=True, exist_ok=True)
        browser = Browser(chromium(), folder)
        sample_runs.whole_run(folder / "whole")
        sample_runs.hostile_run(folder / "hostile")
        for run in ("whole", "hostile"):
            subprocess.run([program, "report", folder / run], check=True, stdout=subprocess.DEVNULL)
            page = folder / run / "report.html"
            for scheme, word in ((LIGHT, "light"), (DARK, "dark")):
                for width in (1200, 400):
                    found = browser.probe(page, scheme, width)
                    check_probe(found, scheme, width)
                    if run == "whole":
                        check_reading(found)
                        check_picture(browser.picture(page, scheme, width, pictures / f"{word}_{width}.png"), scheme, width)
                    print(f"{run} {word} {width}: {len(found['said'])} charts read")
    print("ok")


if __name__ == "__main__":
    main()
