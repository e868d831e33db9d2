"""A program on a pseudo-terminal, and the screen that it draws there as a terminal would show it."""
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import tempfile
import termios
import time

PATIENCE = 20  # Seconds until something that is to happen counts as never.
UTF8 = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
ASCII = {"TERM": "xterm", "LC_ALL": "C"}
# All that the program may say to a terminal.
SEQUENCE = re.compile(r"\x1b\[(?:(\?1049[hl])|(\?25[hl])|(2J)|(\d+);1H|(K)|([\d;]*)m)")


class Screen:
    """The page that a program draws on a terminal. Fails for a sequence it does not know, and for text beyond its edges."""

    def __init__(self, columns, rows):
        self.alternate, self.cursor, self.colours = False, True, set()
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column = {}, 1, 0

    def feed(self, text):
        while text:
            if text[0] == "\x1b":
                found = SEQUENCE.match(text)
                assert found, f"an unknown sequence: {text[:20]!r}"
                self.obey(found)
                text = text[found.end():]
            elif not self.alternate:
                text = text[1:]  # A line of the usual page.
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


class OnTerminal:
    """A program on a terminal of its own."""

    def __init__(self, command, size, environment, keys=True):
        self.master, worker = pty.openpty()
        self.worker = worker
        self.screen = Screen(*size)
        self.resize(*size)
        self.before = termios.tcgetattr(worker)
        inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM", "LANG", "LC_CTYPE", "LC_ALL", "TERM")}
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=worker if keys else subprocess.DEVNULL, stdout=worker, stderr=worker,
            env=inherited | environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0))
        self.raw, self.pending = "", b""

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
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
        self.screen.feed(text)

    def shown(self):
        """The page that is drawn, or all that was written where none is."""
        return self.screen.text() if self.screen.alternate else self.raw

    def wait_for(self, *parts):
        end = time.monotonic() + PATIENCE
        while not all(part in self.shown() for part in parts):
            assert time.monotonic() < end, f"{parts} never came:\n{self.shown()}"
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


def run_tests(namespace):
    """Calls each test_… of a module with an empty folder, in the order of their names."""
    for name, test in sorted(namespace.items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
        print(f"{name[5:].replace('_', ' ')}: ok")
