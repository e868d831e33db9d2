#!/usr/bin/env python3
"""Runs `accelerate watch` in pseudo-terminals of several sizes and kinds, and reads its screen as a terminal would.

usage: watch_live.py PROGRAM
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sample_runs  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
PATIENCE = 20  # Seconds until something that is to happen counts as never.
UTF8 = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
ASCII = {"TERM": "xterm", "LC_ALL": "C"}
# All that the program may say to a terminal.
SEQUENCE = re.compile(r"\x1b\[(?:(\?1049[hl])|(\?25[hl])|(2J)|(\d+);1H|(K)|([\d;]*)m)")


class Screen:
    """What a terminal shows. Fails for a sequence it does not know, and for text beyond its edges."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column = {}, 1, 0
        self.alternate, self.cursor, self.colours = False, True, set()

    def feed(self, text):
        while text:
            if text[0] == "\x1b":
                found = SEQUENCE.match(text)
                assert found, f"an unknown sequence: {text[:20]!r}"
                self.obey(found)
                text = text[found.end():]
            else:
                assert text[0].isprintable(), f"a control character: {text[0]!r}"
                self.put(text[0])
                text = text[1:]

    def obey(self, found):
        page, cursor, clear, row, erase, colour = found.groups()
        if page:
            self.alternate = page.endswith("h")
        elif cursor:
            self.cursor = cursor.endswith("h")
        elif clear:
            self.lines = {}
        elif row:
            self.row, self.column = int(row), 0
            assert 1 <= self.row <= self.rows, f"row {self.row} of {self.rows}"
        elif erase:
            self.lines[self.row] = ""
        elif colour is not None:
            self.colours.add(colour)

    def put(self, character):
        self.lines[self.row] = self.lines.get(self.row, "") + character
        self.column += 1
        assert self.column <= self.columns, f"row {self.row} is too long: {self.lines[self.row]!r}"

    def text(self):
        return "\n".join(self.lines.get(row, "") for row in range(1, self.rows + 1))


class Watch:
    """The program on a terminal of its own."""

    def __init__(self, run, size, environment, *words, keys=True):
        self.master, worker = pty.openpty()
        self.worker = worker
        self.resize(*size)
        self.before = termios.tcgetattr(worker)
        inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM", "LANG", "LC_CTYPE", "LC_ALL", "TERM")}
        self.process = subprocess.Popen(
            [PROGRAM, "watch", str(run), *words], stdin=worker if keys else subprocess.DEVNULL, stdout=worker, stderr=worker,
            env=inherited | environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0))
        self.raw, self.pending = "", b""

    def resize(self, columns, rows):
        self.screen = Screen(columns, rows)
        fcntl.ioctl(self.worker, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.1):
        if not select.select([self.master], [], [], seconds)[0]:
            return
        self.pending += os.read(self.master, 65536)
        whole = self.pending
        cut = whole.rfind(b"\x1b")  # A sequence or character may be cut.
        keep = len(whole) - cut if cut >= 0 and not SEQUENCE.match(whole[cut:].decode("utf-8", "ignore")) else 0
        while keep < 4 and keep < len(whole):
            try:
                whole[:len(whole) - keep].decode("utf-8")
                break
            except UnicodeDecodeError:
                keep += 1
        text = whole[:len(whole) - keep].decode("utf-8")
        self.pending = whole[len(whole) - keep:]
        self.raw += text
        if self.full_screen():
            self.screen.feed(text)

    def full_screen(self):
        return "\x1b" in self.raw

    def wait_for(self, *parts):
        end = time.monotonic() + PATIENCE
        while not all(part in (self.screen.text() if self.full_screen() else self.raw) for part in parts):
            assert time.monotonic() < end, f"{parts} never came:\n{self.screen.text() if self.full_screen() else self.raw}"
            self.read()
        return self

    def press(self, key):
        os.write(self.master, key)
        return self

    def leaves(self):
        """The exit code, once the terminal is as it was before."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not leave"
            self.read(0.02)
        self.read(0.05)
        assert termios.tcgetattr(self.worker) == self.before, "the terminal's settings are not as they were"
        assert self.screen.cursor and not self.screen.alternate, "the terminal still shows the page"
        os.close(self.master)
        os.close(self.worker)
        return self.process.returncode

    def stays(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            assert self.process.poll() is None, "it left"
        return self


def begun(folder, steps=(10, 20, 30)):
    log = sample_runs.Log(folder)
    log.begin(max_steps=100)
    log.time = time.time() - 40
    for step in steps:
        log.time += 10
        log.log(step, 1 / step, learning_rate=1e-3, step_seconds={"forward": 0.25, "backward": 0.5})
    return log


def test_follows_a_run_to_its_end_and_stays(folder):
    log = begun(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8).wait_for("run  Bert", "running", "30/100", "━ loss", "backward 67%", "q leaves")
    assert watch.screen.alternate and not watch.screen.cursor
    with log.path.open("a") as file:  # A line that comes in two pieces.
        file.write('{"event":"log","step":40,"lo')
        file.flush()
        watch.stays(0.7)
        assert "30/100" in watch.screen.text()
        file.write('ss":0.0123}\n')
    watch.wait_for("40/100", "0.0123")
    log.write("save", 40, folder="checkpoint-40", best=True)
    log.write("note", 40, text="the rate is high", level="warning")
    watch.wait_for("1 checkpoint: checkpoint-40 ★ best", "step 40: the rate is high")
    log.write("end", 100, reason="finished", metrics={})
    watch.wait_for("finished", "100%").stays(1.2)
    assert watch.press(b"q").leaves() == 0


def test_fits_a_small_terminal_in_ascii(folder):
    sample_runs.whole_run(folder / "run")
    watch = Watch(folder / "run", (40, 12), ASCII).wait_for("finished", "loss 0.", "* loss", "10 checkpoints", "q leaves")
    assert watch.screen.text().isascii()
    assert watch.press(b"\x03").leaves() == 0  # Ctrl-C


def test_draws_anew_in_another_size(folder):
    sample_runs.whole_run(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8).wait_for("best ", "backward ")
    for columns, rows in ((40, 12), (120, 40), (20, 3), (80, 24)):
        watch.resize(columns, rows)
        watch.wait_for("q leaves")
    watch.wait_for("best ", "backward ")
    assert watch.press(b"Q").leaves() == 0


def test_shows_nothing_of_a_hostile_log_but_text(folder):
    sample_runs.hostile_run(folder / "run")  # Screen fails for what is none.
    for environment in (UTF8, ASCII):
        assert Watch(folder / "run", (80, 24), environment).wait_for("<script>", "q leaves").press(b"q").leaves() == 0


def test_has_the_terminals_colours(folder):
    sample_runs.whole_run(folder / "run")
    for more, allowed in (({}, r"|0|[12]|38;5;\d+"), ({"TERM": "xterm"}, r"|0|[12]|3\d"), ({"NO_COLOR": "1"}, "0")):
        watch = Watch(folder / "run", (80, 24), UTF8 | more).wait_for("q leaves")
        assert all(re.fullmatch(allowed, colour) for colour in watch.screen.colours), watch.screen.colours
        assert watch.press(b"q").leaves() == 0


def test_gives_the_terminal_back_when_it_is_ended(folder):
    begun(folder / "run")
    for ending, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0)):
        watch = Watch(folder / "run", (80, 24), UTF8).wait_for("q leaves")
        watch.process.send_signal(ending)
        assert watch.leaves() == code, ending


def test_needs_no_keys(folder):
    begun(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8, keys=False).wait_for("q leaves").stays(0.7)
    watch.process.send_signal(signal.SIGINT)
    assert watch.leaves() == 0


def test_leaves_when_its_terminal_goes(folder):
    begun(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8).wait_for("q leaves")
    os.close(watch.master)
    os.close(watch.worker)
    watch.process.wait(PATIENCE)


def test_writes_lines_on_a_dumb_terminal(folder):
    log = begun(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8 | {"TERM": "dumb"}).wait_for("run: 30/100 (30%)")
    log.log(40, 0.5)
    watch.wait_for("run: 40/100 (40%)", "loss=0.5")
    log.write("end", 40, reason="stopped", metrics={})
    watch.wait_for("stopped early", "━ loss")
    assert watch.leaves() == 0 and "\x1b" not in watch.raw


def once(run, **environment):
    ran = subprocess.run([PROGRAM, "watch", "--once", str(run)], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
                         env=os.environ | UTF8 | environment, timeout=PATIENCE)
    return ran.stdout


def test_prints_one_page_without_a_terminal(folder):
    begun(folder / "run")
    page = once(folder / "run")
    assert "30/100" in page and "\x1b" not in page and "q leaves" not in page
    assert len(page.splitlines()) <= 24 and all(len(line) <= 80 for line in page.splitlines())
    assert once(folder / "run", LC_ALL="C").isascii()


def test_ends_a_pipe_with_the_run(folder):
    sample_runs.whole_run(folder / "run")
    ran = subprocess.run([PROGRAM, "watch", str(folder / "run")], capture_output=True, text=True, check=True, env=os.environ | UTF8,
                         timeout=PATIENCE)
    assert "finished" in ran.stdout and "\x1b" not in ran.stdout


def test_waits_for_a_log_that_is_replaced(folder):
    log = begun(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8).wait_for("30/100")
    log.path.unlink()
    watch.stays(0.7).wait_for("30/100")
    begun(folder / "run", steps=(10,))
    watch.wait_for("10/100")
    assert watch.press(b"q").leaves() == 0


def test_costs_nothing_while_nothing_happens(folder):
    sample_runs.whole_run(folder / "run")
    watch = Watch(folder / "run", (80, 24), UTF8).wait_for("finished").stays(0.7)  # The rest of the page too.
    sent = len(watch.raw)
    watch.stays(1.6)
    assert len(watch.raw) == sent, "it draws what has not changed"
    assert watch.press(b"q").leaves() == 0


def main():
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
        print(f"{name[5:].replace('_', ' ')}: ok")


if __name__ == "__main__":
    main()
