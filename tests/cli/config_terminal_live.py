#!/usr/bin/env python3
"""Answers `accelerate config` on pseudo-terminals of several sizes and kinds, in pipes, and by nothing.

usage: config_terminal_live.py PROGRAM
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from on_terminal import ASCII, PATIENCE, UTF8, OnTerminal, run_tests  # noqa: E402

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
UP, DOWN, ENTER, CONTROL_C = b"\x1b[A", b"\x1b[B", b"\r", b"\x03"

# Nine set-ups: what is answered otherwise than by Enter, and lines of the file.
SETUPS = {
    "none": ([("CPU even where", "yes")], ["distributed_type: 'NO'", "use_cpu: true", "num_processes: 1"]),
    "multi-CPU": ([("train on", "multi-CPU"), ("How many processes train", "4")],
                  ["distributed_type: MULTI_CPU", "num_processes: 4", "use_cpu: true"]),
    "multi-GPU": ([("train on", "multi-GPU"), ("How many machines", "2"), ("Which address", "10.0.0.1"), ("its ports", "29501"),
                   ("mixed precision", "bf16")],
                  ["distributed_type: MULTI_GPU", "main_process_ip: 10.0.0.1", "main_process_port: 29501", "mixed_precision: bf16"]),
    "FSDP 1": ([("train on", "multi-GPU"), ("Use FSDP", "yes"), ("Which version", "1"), ("What is sharded", "SHARD_GRAD_OP"),
                ("Which classes are units", "BertLayer"), ("How many GPUs", "2")],
               ["distributed_type: FSDP", "fsdp_version: 1", "fsdp_reshard_after_forward: SHARD_GRAD_OP",
                "fsdp_transformer_layer_cls_to_wrap: BertLayer"]),
    "FSDP 2": ([("train on", "multi-CPU"), ("Use FSDP", "yes"), ("model say", "yes"), ("How many processes train", "2")],
               ["distributed_type: FSDP", "fsdp_version: 2", "use_cpu: true", "num_processes: 2"]),
    "DeepSpeed": ([("train on", "multi-GPU"), ("Use DeepSpeed", "yes"), ("Which stage", "3"), ("parameters live", "nvme"),
                   ("Clip gradients", "yes")],
                  ["distributed_type: DEEPSPEED", "zero_stage: 3", "offload_param_nvme_path: /nvme", "gradient_clipping: 1.0"]),
    "Megatron-LM": ([("train on", "multi-GPU"), ("Megatron", "yes"), ("split each layer", "2"), ("How many GPUs", "8")],
                    ["distributed_type: MEGATRON_LM", "megatron_lm_tp_degree: 2", "num_processes: 8"]),
    "TPU": ([("train on", "TPU"), ("cluster (a pod)", "yes"), ("cluster called", "mine"), ("zone", "europe")],
            ["distributed_type: XLA", "tpu_name: mine", "tpu_zone: europe", "tpu_use_cluster: true"]),
    "parallel groups": ([("train on", "multi-GPU"), ("Use FSDP", "yes"), ("model say", "yes"), ("parallel groups", "yes"),
                         ("split each layer", "2"), ("split each sequence", "2"), ("How many GPUs", "4")],
                        ["parallelism_config_tp_size: 2", "parallelism_config_cp_size: 2", "parallelism_config_cp_comm_strategy: allgather"]),
}


# What native programs, and what this launcher, leave to Python.
FOR_PYTHON = {"Megatron-LM", "TPU", "parallel groups"}
REFUSED_BY_LAUNCH = {"TPU"}


def quietly(folder):
    return {"HF_HOME": str(folder), "HOME": str(folder), "CUDA_VISIBLE_DEVICES": "-1"}


class Form(OnTerminal):
    def __init__(self, folder, size=(80, 24), environment=UTF8, *words):
        super().__init__([PROGRAM, "config", *words], size, environment | quietly(folder))

    def wait_until(self, holds, what):
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"{what}:\n{self.shown()}"
            self.read(0.02)

    def read_all(self):
        """Until nothing comes: a page may come in pieces."""
        seen = None
        while seen != len(self.raw):
            seen = len(self.raw)
            self.read(0.03)

    def marked(self):
        return next((re.sub(r"^[0-9]+[.] ", "", line[2:].strip()) for line in self.shown().splitlines() if line.startswith("> ")), None)

    def has_left(self):
        return self.process.poll() is not None or "saved at" in self.raw

    def answer(self, text):
        """Chooses or types, and takes it."""
        self.read_all()
        if self.marked() is None:
            self.press(text.encode())
        for _ in range(30):
            if self.marked() in (None, text):
                break
            was = self.marked()
            self.press(DOWN).wait_until(lambda: self.marked() != was, "nothing moves")
        assert self.marked() in (None, text), f"there is no {text}:\n{self.shown()}"
        self.read_all()
        before = self.shown()
        self.press(ENTER).wait_until(lambda: self.has_left() or self.shown() != before, "nothing comes")

    def go_through(self, answers):
        """Answers as told, else by Enter."""
        rest = list(answers)
        for _ in range(60):
            self.wait_until(lambda: self.has_left() or question_of(self.shown()), "no question")
            self.read_all()
            if self.has_left():
                break
            asked = question_of(self.shown())
            if rest and rest[0][0] in asked:
                self.answer(rest.pop(0)[1])
            else:
                shown = self.shown()
                self.press(ENTER).wait_until(lambda: self.has_left() or self.shown() != shown, f"Enter is no answer to {asked}")
        assert not rest, f"never asked: {rest}\n{self.shown()}"
        return self.leaves()


def question_of(page):
    """The text in front of choices or of what is typed, if it is there."""
    lines = page.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("> ") or line.endswith("_")), 0)
    while at > 0 and lines[at - 1].startswith("  "):
        at -= 1
    begin = at
    while begin > 0 and lines[begin - 1].strip():
        begin -= 1
    return re.sub(r"\s+", " ", " ".join(lines[begin:at]))


def saved(folder):
    return (folder / "accelerate" / "default_config.yaml").read_text(encoding="utf-8")


def test_nine_setups(folder):
    for size in ((80, 24), (40, 16)):
        for name, (answers, lines) in SETUPS.items():
            home = folder / f"{name} {size[0]}"
            form = Form(home, size)
            assert form.go_through(answers) == 0, name
            for line in lines:
                assert re.search(rf"^ *{re.escape(line)}$", saved(home), re.M), (name, line, saved(home))
            python = "Next, with Python's Accelerate" if name in REFUSED_BY_LAUNCH else "Next"
            program = "PROGRAM.py" if name in FOR_PYTHON else "PROGRAM"
            assert "accelerate configuration saved at" in form.raw
            assert re.search(rf"{python}: accelerate launch {program}\r?\n", form.raw), (name, form.raw[-300:])


def test_goes_back_and_asks_what_then_follows(folder):
    form = Form(folder).wait_for("Where will you train?")
    form.answer("This machine")
    form.answer("multi-GPU")
    form.wait_for("How many machines")
    form.press(b"<").wait_for("What will you train on?").wait_for("> 5. multi-GPU")
    form.answer("multi-CPU")
    form.wait_for("How many machines")
    assert form.go_through([("How many processes train", "3")]) == 0
    assert "MULTI_CPU" in saved(folder)


def test_explains_and_checks_what_is_typed(folder):
    form = Form(folder).wait_for("Where will you train?")
    form.press(b"?").wait_for("rented at Amazon").press(b"?")
    form.answer("This machine")
    form.answer("multi-CPU")
    form.wait_for("How many machines take part?").press(b"0").wait_for("an integer")
    form.press(ENTER).wait_for("an integer")
    form.press(b"\x7f2").wait_until(lambda: "an integer" not in form.shown(), "still refused")
    form.press(ENTER).wait_for("What is the rank of this machine")
    assert form.press(CONTROL_C).leaves() == 130


def test_offers_what_was_answered_before(folder):
    form = Form(folder).wait_for("Where will you train?")
    form.answer("This machine")
    form.answer("multi-CPU")
    form.answer("1")
    form.answer("yes")
    form.press(b"<").wait_for("Check the tensors").wait_for("> yes")
    assert form.go_through([]) == 0
    assert "debug: true" in saved(folder)


def test_takes_a_number_of_two_digits(folder):
    form = Form(folder).wait_for("Where will you train?")
    form.answer("This machine")
    form.press(b"1").wait_for("> 1. No distributed").press(b"1").wait_for("> 11. TPU")
    form.press(b"4").wait_for("> 4. multi-HPU")
    assert form.press(CONTROL_C).leaves() == 130


def test_stays_useful_on_a_tiny_screen(folder):
    form = Form(folder, (30, 6)).wait_for("Where will you train?").wait_for("> 1. This machine")
    form.press(b"?").wait_for("This machine, alone").wait_for("> 1. This machine")
    form.press(b"?").press(ENTER).wait_for("What will you train on?")
    form.press(b"9").wait_for("> 9. multi-MUSA").press(ENTER)
    form.wait_for("How many machines").wait_for("[1] _")  # The note before it gives way.
    assert form.press(CONTROL_C).leaves() == 130


def test_leaves_in_the_middle_of_a_long_paste(folder):
    form = Form(folder).wait_for("Where will you train?")
    form.answer("This machine")
    form.answer("multi-CPU")
    form.wait_for("How many machines")
    form.press(b"7" * 3000).press(b"8" * 3000).press(CONTROL_C)
    assert form.leaves() == 130


def test_goes_on_after_a_stop(folder):
    form = Form(folder).wait_for("Where will you train?")
    form.process.send_signal(signal.SIGTSTP)  # Ignored where no shell could let it go on, as here.
    form.process.send_signal(signal.SIGCONT)
    form.answer("This machine")
    form.wait_for("What will you train on?").press(b"\x1a").wait_for("What will you train on?")
    assert form.go_through(SETUPS["multi-CPU"][0][:0]) == 0


def test_leaves_no_file(folder):
    for ending, code in ((CONTROL_C, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        form = Form(folder).wait_for("Where will you train?")
        form.answer("This machine")
        form.process.send_signal(ending) if isinstance(ending, signal.Signals) else form.press(ending)
        assert form.leaves() == code
        assert "nothing was written" in form.raw
        assert not list(folder.rglob("*.yaml"))


def test_draws_anew_in_another_size(folder):
    form = Form(folder).wait_for("Where will you train?")
    for columns, rows in ((40, 12), (20, 6), (120, 40)):
        form.resize(columns, rows)
        form.wait_for("This machine")
    assert form.press(CONTROL_C).leaves() == 130


def test_asks_in_ascii_where_the_locale_says_so(folder):
    form = Form(folder, (80, 24), ASCII)
    assert form.go_through(SETUPS["multi-CPU"][0]) == 0


def test_asks_in_lines_on_a_dumb_terminal(folder):
    form = Form(folder, (80, 24), UTF8 | {"TERM": "dumb"})
    form.wait_for("Where will you train?", "1. This machine", "[This machine]")
    form.press(b"\n").wait_for("What will you train on?").press(b"2\n").wait_for("How many machines").press(b"<\n")
    form.wait_until(lambda: form.raw.count("What will you train on?") == 2, "it does not go back")
    form.press(b"multi-cpu\n").wait_until(lambda: form.raw.count("How many machines") == 2, "no answer")
    form.press(b"many\n").wait_for("allowed is an integer").press(b"\n" * 20)
    assert form.leaves() == 0 and "\x1b" not in form.raw
    assert "MULTI_CPU" in saved(folder)


def piped(folder, text, *words):
    return subprocess.run([PROGRAM, "config", *words], input=text, capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env=os.environ | UTF8 | quietly(folder))


def test_takes_answers_from_a_pipe(folder):
    ran = piped(folder, "\nmulti-CPU\n\n\n\n\n\n4\nbf16\n")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "num_processes: 4" in saved(folder) and "mixed_precision: bf16" in saved(folder)


def test_ends_with_the_input_and_writes_nothing(folder):
    for text in ("", "\n", "\nmulti-CPU\n\n"):
        ran = piped(folder, text)
        assert ran.returncode == 2 and "nothing was written" in ran.stderr, ran
        assert not list(folder.rglob("*.yaml"))


def test_shows_a_file_that_is_there_and_keeps_it(folder):
    path = folder / "mine.json"
    path.write_text('{"distributed_type": "NO"}')
    ran = piped(folder, "\n", "--config_file", path)
    assert ran.returncode == 0 and '"distributed_type": "NO"' in ran.stdout and "stays as it is" in ran.stdout
    assert path.read_text() == '{"distributed_type": "NO"}'
    ran = piped(folder, "yes\n" + "\n" * 20, "--config_file", path)
    assert ran.returncode == 0 and '"compute_environment": "LOCAL_MACHINE"' in path.read_text(), ran
    assert f"accelerate launch --config_file {path} PROGRAM" in ran.stdout


def test_writes_behind_links_with_the_old_permissions(folder):
    answers = "\n" * 20
    target = folder / "target.yaml"
    (folder / "link").symlink_to("target.yaml")
    ran = piped(folder, answers, "--config_file", folder / "link")
    assert ran.returncode == 0 and (folder / "link").is_symlink() and target.exists(), ran
    target.chmod(0o600)
    ran = piped(folder, "yes\n" + answers, "--config_file", folder / "link")
    assert ran.returncode == 0 and target.stat().st_mode & 0o777 == 0o600, ran
    (folder / "loop").symlink_to("loop")
    ran = piped(folder, answers, "--config_file", folder / "loop")
    assert ran.returncode == 2 and "leads to itself" in ran.stderr, ran


def test_quotes_the_next_command(folder):
    path = folder / "a b.yaml"
    ran = piped(folder, "\n" * 20, "--config_file", path)
    assert f"Next: accelerate launch --config_file '{path}' PROGRAM\n" in ran.stdout, ran


def test_refuses_what_launch_would(folder):
    for lines, sentence in (("\nmulti-GPU\n\n\n\n\n\n\n2\n7,banana\n", "is not the id of a GPU"), ("\nmulti-CPU\n3\n3\n", "numbered 0 to 2"),
                            ("\nmulti-CPU\n\n\n\n\n\n-1\n", "each machine takes one"),
                            ("\nmulti-CPU\n\n\n\n\n\n2\n\udcff\n", "not UTF-8 text")):
        ran = subprocess.run([PROGRAM, "config"], input=lines.encode("utf-8", "surrogateescape"), capture_output=True, check=False,
                             timeout=PATIENCE, env=os.environ | UTF8 | quietly(folder))
        assert ran.returncode == 2 and sentence in ran.stdout.decode("utf-8", "replace"), (sentence, ran)


def test_shows_nothing_of_a_hostile_file_but_text(folder):
    path = folder / "esc.yaml"
    path.write_bytes(b"distributed_type: \x1b[31mNO\x07\xff \xc3\xa9\n")
    ran = piped(folder, "no\n", "--config_file", path)
    assert ran.returncode == 0 and "distributed_type: ?[31mNO?? \u00e9\n" in ran.stdout, ran


def test_takes_a_file_before_a_sub_command(folder):
    ran = piped(folder, "", "--config_file", folder / "x.yaml", "default")
    assert ran.returncode == 0 and list(folder.rglob("*.yaml")) == [folder / "x.yaml"], ran
    ran = piped(folder, "", "--config_file", folder / "y.yaml", "update")
    assert ran.returncode == 2 and "y.yaml" in ran.stderr, ran


def test_says_at_once_what_cannot_be_written(folder):
    (folder / "there").mkdir()
    (folder / "file").touch()
    for path, sentence in ((folder / "there", "not a regular file"), (folder / "file" / "x.yaml", "cannot be written")):
        ran = piped(folder, "", "--config_file", path)
        assert ran.returncode == 2 and sentence in ran.stderr and "Where will you" not in ran.stdout, ran


if __name__ == "__main__":
    run_tests(globals())
