#!/usr/bin/env python3
"""Runs `accelerate watch` in pseudo-terminals of several sizes and kinds, and reads its screen as a terminal would.

usage: watch_live.py PROGRAM
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "watch" / "run_log"), str(TESTS / "support")]
import sample_runs  # noqa: E402
from on_terminal import ASCII, PATIENCE, UTF8, OnTerminal, run_tests  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())


class Watch(OnTerminal):
    def __init__(self, run, size, environment, keys=True):
        super().__init__([PROGRAM, "watch", run], size, environment, keys)


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


if __name__ == "__main__":
    run_tests(globals())
