"""benchmarks/compare without the programs it measures: how it takes turns, sums up, judges, and refuses."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks"))
import confined  # noqa: E402
import harness  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
from harness import BenchmarkError, Contender, Setting, Summary  # noqa: E402
from report import AtMost, Both, OfBound, Row, Share, Times, TimesBound  # noqa: E402
from suites import comm, fsdp, loop, models, trainer, trainer_runs  # noqa: E402
ROWS = {"launch": 6, "command_line": 5, "cv": 5, "loop": 3, "optimizer": 10, "loader": 6, "checkpoint": 7,
        "comm": 154, "tokenizers": 35, "datasets": 10, "hub": 2, "models": 21 if fsdp.has_fast_bf16() else 12, "fsdp": 11 if fsdp.has_fast_bf16() else 9}  # Every suite, and how many rows it has.
ROWS |= {"gpu": 16, "trainer": 11, "trainer_runs": 3}  # A row for bf16 whether or not the CPU has it.

# Stands for every program: reports what any of them would, and once more for each line that it reads.
REPORTING = """#!/bin/sh
echo some line before
echo - Products of fp32 matrices on the CPU: a library
report() {
echo '{"finished_ns": '$(date +%s%N)', "ranks": 2, "resident_kib": 1000, "peak_kib": 2000,
 "block_seconds": [0.1, 0.3], "step_seconds": [0.4], "plain_seconds": [0.2], "plain_losses": [2.0, 1.5], "accelerated_losses": [2.0, 1.5], "accelerated_seconds": [0.1],
 "save_seconds": 0.3, "extra_kib": 4096, "map_seconds": [0.1], "load_seconds": 0.2, "stall_seconds": [0.2, 0.1],
 "backend": "gloo", "computed_in": "BFloat16", "encode_seconds": 0.1, "open_seconds": 0.1, "bytes": 1000000, "tokens": 5, "batches": 1, "loss": 2.0, "pass_seconds": 0.1, "products_seconds": 0.1, "token_seconds": 0.1, "checksum": 7, "rows": 1000, "call_seconds": 0.01, "cpu_seconds": 0.01, "row_seconds": 0.001, "peak_anonymous_kib": 1000, "peak_resident_kib": 2000, "proportional_mib": 500, "seconds": {COLLECTIVES}, "copy_seconds": [0.1], "first_seconds": 0.3, "default_seconds": [0.2], "fused_seconds": [0.1], "epoch_seconds": [0.1], "fed_seconds": [0.1], "unfed_seconds": [0.1], "samples": 100,
 "pids": ['$$'], "threads": 2, "weights": 125000000, "device_peak_mib": 900, "slice_seconds": 0.1, "padded_tokens": 300, "real_tokens": 200, "losses": [2.0, 1.5], "first_loss": 2.0, "eval_accuracy": 0.5, "eval_loss": 1.5}' | tr -d '\\n'
echo
}
report
while read -r line; do report; done
""".replace("{COLLECTIVES}", json.dumps({name: [0.1] for name in [*comm.names_of(4), "memory"]}))


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make_build(folder):
    executable(folder / "bin" / "accelerate", REPORTING)
    for program in ("no_op", "collectives", "transformer_steps", "first_collective", "train_steps", "interleaved_steps", "loop_steps", "optimizer_steps",
                    "loader_epochs", "checkpoint", "sharded_steps", "watched_steps", "one_tensor", "tokenize_text", "hub_snapshot", "dataset_rows", "model_steps", "generate_tokens",
                    "trainer_steps", "gpu_steps", "gpu_models"):
        executable(folder / "benchmarks" / f"bench_{program}", REPORTING)


def make_venv(folder, **versions):
    # Asked for its versions (-c ASK NAME …) it prints them; given an original to run, it reports.
    versions = machine.PINNED | machine.ALSO_PINNED | {"torch": "2.13.0+cpu"} | versions
    known = "".join(f"{name}) echo {version};; " for name, version in versions.items())
    executable(folder / "bin" / "python", '#!/bin/sh\nif [ "$1" = -c ]; then shift 2; echo 3.11.2; '
               f'for name; do case $name in {known}esac; done; exit; fi\n' + REPORTING.removeprefix("#!/bin/sh\n"))
    for program in ("accelerate", "torchrun"):
        executable(folder / "bin" / program, REPORTING)
    # Stands for the server that the suite `hub` starts: nobody asks it for anything.
    executable(folder / "bin" / "nginx", '#!/bin/sh\ntouch "$2/pid"; exec sleep 60\n')


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.setting = Setting(self.folder / "build", self.folder / "venv", self.folder, 1)


class Turns(unittest.TestCase):
    def test_contenders_alternate_and_their_warm_up_does_not_count(self):
        order = []
        contenders = [Contender(name, lambda name=name: order.append(name) or len(order)) for name in ("ours", "theirs")]
        samples = harness.alternate(contenders, 3)
        self.assertEqual(order, ["ours", "theirs"] * 4)
        self.assertEqual(samples, {"ours": [3, 5, 7], "theirs": [4, 6, 8]})

    def test_a_quick_contender_may_run_several_times_a_turn(self):
        samples = harness.alternate([Contender("quick", lambda: 1, repeat=5), Contender("slow", lambda: 2)], 2)
        self.assertEqual({name: len(values) for name, values in samples.items()}, {"quick": 10, "slow": 2})


class Rows(unittest.TestCase):
    def test_a_summary_has_the_minimum_and_the_median(self):
        self.assertEqual(Summary.of([5, 1, 9, 2]), Summary(1, 3.5))
        self.assertEqual(Summary(30, 40) - Summary(1, 2), Summary(29, 38))

    def test_a_target_is_met_at_its_boundary_and_missed_beyond_it(self):
        for ours, theirs, target, verdict in [
                (Summary(30, 99), None, AtMost(30), "met"), (Summary(30.1, 31), None, AtMost(30), "MISSED"),
                (Summary(1, 1), Summary(6, 1), Times(6), "met"), (Summary(1, 1), Summary(5.9, 9), Times(6), "MISSED"),
                (Summary(1, 1), Summary(2, 2), Times(2, True), "met"),
                (Summary(1, 1), Summary(2, 1.9), Times(2, True), "MISSED"), (Summary(1, 1), None, None, ""),
                (Summary(2, 9), None, OfBound(0.5), "met"), (Summary(2.1, 9), None, OfBound(0.5), "MISSED"),
                (Summary(1.25, 9), None, TimesBound(1.25), "met"), (Summary(1.3, 9), None, TimesBound(1.25), "MISSED"),
                (Summary(2, 9), Summary(8, 8), Both(Times(4), OfBound(0.5)), "met"),
                (Summary(2, 9), Summary(7, 7), Both(Times(4), OfBound(0.5)), "MISSED")]:
            row = Row("row", "ms", ours, theirs, target, bound=1)
            self.assertEqual(row.verdict(), verdict, (ours, theirs, target))

    def test_bounds_have_columns_where_any_row_has_one(self):
        rows = [Row("bounded", "ms", Summary(4, 5), None, OfBound(0.7), 3), Row("not", "ms", Summary(4, 5))]
        page = report.markdown("Title", [], rows, "How.")
        self.assertIn("| of medians | bound | of bound | target |", page)
        self.assertIn("|  | 3.00 | 0.75 | ≥ 0.7 of bound | met |", page)
        self.assertEqual({line.count("|") for line in page.splitlines() if line.startswith("|")}, {13})
        self.assertEqual(len(list(report.lines(rows))), 3)

    def test_the_table_is_aligned_and_has_a_line_a_row(self):
        rows = [Row("short", "ms", Summary(1.234, 20.05)), Row("a long name", "MB", Summary(123.4, 200),
                                                               Summary(246.8, 200), Times(2))]
        heading, short, long = report.lines(rows)
        self.assertEqual(heading.index("unit"), long.index("MB"))
        self.assertEqual(short.split(), ["short", "ms", "1.23", "20.1"])
        self.assertEqual(long.split(), ["a", "long", "name", "MB", "123", "200", "247", "200", "2.00×", "1.000×", "≥",
                                        "2×", "met"])

    def test_markdown_has_the_facts_the_rows_and_the_notes(self):
        page = report.markdown("Title", [("date", "today")], [Row("row", "ms", Summary(1, 2))], "How.")
        self.assertTrue(page.startswith("# Title\n\n- date: today\n\n| "))
        self.assertTrue(page.endswith("\n| row | ms | 1.00 | 2.00 |  |  |  |  |  |  |\n\nHow.\n"))
        self.assertEqual({line.count("|") for line in page.splitlines() if line.startswith("|")}, {11})


class ControlGroups(WithFolder):
    """Folders in place of the kernel's."""

    def files_of(self, group):
        files = {file.name: file.read_text(encoding="ascii") for file in group.folder.iterdir()}
        shutil.rmtree(group.folder)
        return files

    def within(self, own, **files):
        for name, text in files.items():
            executable(self.folder / name, text)
        executable(self.folder / "own", own)
        return mock.patch.multiple(confined, ROOT=self.folder, SELF=self.folder / "own")

    def test_version_2_makes_a_group_beside_this_process(self):
        with self.within("0::/jobs/mine\n", **{"jobs/mine/cgroup.controllers": "memory io", "jobs/cgroup.subtree_control": "io memory"}):
            with confined.groups(lambda: confined.Memory(1 << 20)) as (memory,):
                self.assertEqual(memory.folder.parent, self.folder / "jobs")
                executable(memory.folder / "memory.events", "oom 3\noom_kill 2\n")
                executable(memory.folder / "memory.peak", "900\n")
                self.assertEqual((memory.kills(), memory.peak_bytes()), (2, 900))
                files = self.files_of(memory)
        self.assertEqual((files["memory.max"], files["memory.swap.max"]), ("1048576", "0"))

    def test_version_2_limits_a_disk(self):
        with self.within("0::/mine\n", **{"mine/cgroup.controllers": "io", "cgroup.subtree_control": "io"}):
            with mock.patch.object(confined, "device_of", lambda _: "8:0"), confined.groups(lambda: confined.Disk(self.folder, 5)) as (disk,):
                executable(disk.folder / "io.stat", "7:1 rbytes=1 wbytes=1\n8:0 rbytes=20 wbytes=30 rios=1\n")
                self.assertEqual(disk.moved_bytes(), [20, 30])
                self.assertEqual(self.files_of(disk)["io.max"], "8:0 rbps=5 wbps=5")

    def test_without_the_controller_there_is_none(self):
        with self.within("0::/\n", **{"cgroup.controllers": "cpu"}), self.assertRaisesRegex(confined.Unavailable, "controller memory"):
            confined.Memory(1 << 20)


class Confined(WithFolder):
    def setUp(self):
        super().setUp()
        try:
            with confined.groups(confined.Memory):
                pass
        except confined.Unavailable as error:
            self.skipTest(str(error))

    def test_a_program_that_wants_more_than_the_limit_is_killed_and_counted(self):
        with confined.groups(lambda: confined.Memory(16 << 20)) as (memory,):
            words = [sys.executable, "-c", "bytearray(64 << 20)"]
            self.assertNotEqual(subprocess.run(confined.command(words, memory), check=False).returncode, 0)
            self.assertGreaterEqual(memory.kills(), 1)
        self.assertFalse(memory.folder.exists())

    def test_what_a_program_takes_is_counted_without_a_limit(self):
        with confined.groups(confined.Memory) as (memory,):
            words = [sys.executable, "-c", "import time; x = bytearray(64 << 20); time.sleep(0.3)"]
            subprocess.run(confined.command(words, memory), check=True)
        self.assertEqual(memory.kills(), 0)
        self.assertGreaterEqual(memory.held_bytes, 64 << 20)

    def test_what_is_written_to_a_slow_disk_is_counted(self):
        try:
            group = confined.Disk(self.folder, 100_000_000)
        except confined.Unavailable as error:
            self.skipTest(str(error))
        self.addCleanup(group.close)
        words = ["dd", "if=/dev/zero", f"of={self.folder}/file", "bs=1M", "count=4", "oflag=direct", "status=none"]
        subprocess.run(confined.command(words, group), check=True)
        self.assertGreaterEqual(group.moved_bytes()[1], 4 << 20)


class Runs(WithFolder):
    def test_a_failure_says_the_command_the_code_and_what_was_printed(self):
        with self.assertRaisesRegex(BenchmarkError, r"(?s)`sh -c .*` ended with 3; it printed:\nno luck"):
            harness.run(self.setting, ["sh", "-c", "echo no luck >&2; exit 3"])

    def test_what_takes_too_long_is_ended(self):
        with mock.patch.object(harness, "LIMIT_SECONDS", 0.2):
            with self.assertRaisesRegex(BenchmarkError, "took longer than 0.2 s"):
                harness.run(self.setting, ["sleep", "60"])

    def test_a_report_is_the_line_of_json(self):
        finished = harness.run(self.setting, ["sh", "-c", 'echo text; echo \'{"a": 1}\'; echo more'])
        self.assertEqual(finished.report(), {"a": 1})
        with self.assertRaisesRegex(BenchmarkError, r"reported nothing; it printed:\n\(nothing\)"):
            harness.run(self.setting, ["true"]).report()

    def test_programs_see_one_thread_and_nobodys_configuration(self):
        with mock.patch.dict(os.environ, {"ACCELERATE_LOG_LEVEL": "debug", "RANK": "1"}):
            seen = harness.run(self.setting, ["env"]).output.splitlines()
        self.assertIn("OMP_NUM_THREADS=1", seen)
        self.assertIn(f"HF_HOME={self.folder}", seen)
        self.assertFalse([line for line in seen if line.startswith(("RANK=", "ACCELERATE_"))])


class Trainings(WithFolder):
    """The suite `trainer`: trainings that take turns, and its own targets and rows."""

    def training(self, script):
        return trainer.Training(self.setting, ["sh", "-c", script])

    def test_a_training_goes_on_with_each_line_and_other_lines_are_no_answers(self):
        with self.training("""echo '{"a": 0}'; for i in 1 2; do read line; echo "{'loss': 1}"; echo "{\\"a\\": $i}"; done""") as training:
            self.assertEqual([training.ready, training.train(), training.train()], [{"a": 0}, {"a": 1}, {"a": 2}])

    def test_a_training_that_ends_early_says_what_it_printed(self):
        with self.assertRaisesRegex(BenchmarkError, "(?s)ended early; it printed:\nno luck"):
            with self.training("echo no luck >&2; exit 3"):
                pass
        with self.training("""echo '{"a": 0}'; read line; echo out of memory >&2""") as training:
            with self.assertRaisesRegex(BenchmarkError, "(?s)ended early; it printed:\nout of memory"):
                training.train()

    def test_a_training_that_takes_too_long_is_ended(self):
        with mock.patch.object(trainer, "TURN_LIMIT_SECONDS", 0.2), mock.patch.object(trainer, "END_LIMIT_SECONDS", 0.2):
            with self.assertRaisesRegex(BenchmarkError, "took longer than 0.2 s"):
                with self.training("exec sleep 60"):
                    pass

    def test_targets_hold_at_their_boundary(self):
        for ours, theirs, target, text, verdict in [(42, 100, Share(0.42), "≤ 0.42× theirs", "met"), (43, 100, Share(0.42), "≤ 0.42× theirs", "MISSED"),
                                                    (31.5, 30, trainer_runs.Within(1.5), "theirs ± 1.5", "met"), (28, 30, trainer_runs.Within(1.5), "theirs ± 1.5", "MISSED")]:
            row = Row("row", "ms", Summary(ours, ours), Summary(theirs, theirs), target)
            self.assertEqual((target.text("ms"), row.verdict()), (text, verdict))

    def test_an_absent_row_says_why_and_fits_the_table(self):
        for bound in (None, 3):
            rows = [Row("row", "ms", Summary(4, 5), bound=bound), trainer.Absent("bf16", "no such CPU")]
            page = report.markdown("Title", [], rows, "How.")
            self.assertIn("| bf16: absent, no such CPU |", page)
            self.assertEqual(len({line.count("|") for line in page.splitlines() if line.startswith("|")}), 1)

    def test_sides_that_differ_are_refused(self):
        trainer.agree("rows", [{"rows": [3, 1]}, {"rows": [3, 1]}])
        with self.assertRaisesRegex(BenchmarkError, r"differ in rows: \[3, 1\], \[3, 2\]"):
            trainer.agree("rows", [{"rows": [3, 1]}, {"rows": [3, 2]}])

    def test_memory_of_processes_is_their_sum_and_of_ended_ones_nothing(self):
        mine = trainer.proportional_mib([os.getpid()])
        self.assertGreater(mine, 1)
        self.assertAlmostEqual(trainer.proportional_mib([os.getpid()] * 2), 2 * mine, delta=mine / 2)
        self.assertEqual(trainer.proportional_mib([1 << 30]), 0)


class Losses(WithFolder):
    """Rows whose sides compute the same losses, and what happens when they do not."""

    def test_losses_that_differ_end_the_run(self):
        differing = REPORTING.replace('"accelerated_losses": [2.0, 1.5]', '"accelerated_losses": [2.0, 1.501]')
        executable(self.setting.program("interleaved_steps"), differing)
        with self.assertRaisesRegex(BenchmarkError, r"differ: 1\.501, 1\.5"):
            loop.transformer_row(self.setting, lambda text: None)
        sides = {"ours": [{"loss": 2.0}], "padded": [{"loss": 2.00001}]}
        models.check_losses(sides, "bfloat16")
        with self.assertRaisesRegex(BenchmarkError, "the losses differ"):
            models.check_losses(sides, "float32")

    def test_a_torch_compile_that_fails_makes_the_row_absent_and_a_failure_of_ours_does_not(self):
        make_build(self.folder / "build")
        executable(self.folder / "venv" / "bin" / "python", "#!/bin/sh\necho no compiler >&2; exit 1\n")
        row = models.compiled_row(self.setting, lambda text: None, "batches", "float32")
        self.assertIn("1 thread, against theirs compiled: absent, torch.compile does not work on this machine: no compiler", row.cells()[0])
        executable(self.setting.program("model_steps"), "#!/bin/sh\nexit 1\n")
        with self.assertRaisesRegex(BenchmarkError, "bench_model_steps .* ended with 1"):
            models.compiled_row(self.setting, lambda text: None, "batches", "float32")


class Refusals(WithFolder):
    def test_other_versions_than_the_pinned_are_refused(self):
        for versions, message in [({"torch": "2.12.1"}, "torch 2.12.1, .* install"),
                                  ({"accelerate": "1.14.0"}, "accelerate 1.14.0, .* install")]:
            make_venv(self.folder / "venv", **versions)
            with self.assertRaisesRegex(BenchmarkError, message):
                machine.original_versions(self.folder / "venv")
        with self.assertRaisesRegex(BenchmarkError, "accelerate 1.14.0"):
            machine.original_versions(self.folder / "venv", any_torch=True)
        make_venv(self.folder / "venv", torch="2.11.0+cu130")
        self.assertEqual(machine.original_versions(self.folder / "venv", any_torch=True)["torch"], "2.11.0+cu130")

    def test_a_python_that_cannot_draw_is_refused_before_anything_is_measured(self):
        executable(self.folder / "venv" / "bin" / "python", "#!/bin/sh\nexit 1\n")
        with self.assertRaisesRegex(BenchmarkError, "has no matplotlib, .* -r benchmarks/requirements.txt"):
            machine.check_package(self.folder / "venv", "matplotlib")

    def test_absent_originals_and_an_absent_build_are_refused(self):
        with self.assertRaisesRegex(BenchmarkError, "nothing to compare with; scripts/setup"):
            machine.original_versions(self.folder / "venv")
        with self.assertRaisesRegex(BenchmarkError, "bin/accelerate is missing: build it with `cmake"):
            machine.check_build(self.setting, ())
        machine.check_build(self.setting, (), launches=False)
        self.assertEqual(machine.matrix_library(self.setting), "")


class Command(WithFolder):
    def compare(self, *words):
        command = [sys.executable, "-B", ROOT / "benchmarks" / "compare", *words, "--build", self.folder / "build",
                   "--venv", self.folder / "venv"]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def test_all_suites_print_their_rows_and_write_their_pages(self):
        self.maxDiff = None
        make_build(self.folder / "build")
        make_venv(self.folder / "venv")
        result = self.compare(*ROWS, "--quick", "--results", self.folder / "results")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        pages = {name: (self.folder / "results" / f"{name}.md").read_text(encoding="utf-8") for name in ROWS}
        rows = {name: [line for line in page.splitlines() if line.startswith("| ")] for name, page in pages.items()}
        self.assertEqual({name: len(lines) for name, lines in rows.items()}, {name: count + 2 for name, count in ROWS.items()})
        for line in [line for lines in rows.values() for line in lines[2:]]:
            self.assertIn(line.split("|")[1].strip(), result.stdout)
        self.assertIn("| step on 1 rank against LibTorch alone | ms | 100 | 100 | 200 | 200 | 2.00× | 2.00× | ≥ 0.98×, "
                      "both | met |", pages["cv"])
        self.assertIn("- products of fp32 matrices: ours by a library, theirs as", pages["launch"])
        self.assertIn("torch 2.13.0+cpu, accelerate 1.15.0, Python 3.11.2", pages["launch"])
        self.assertIn("Ours ran over gloo.](comm.png)", pages["comm"])

    def test_bad_words_are_refused_with_a_sentence(self):
        for words, code, message in [(["sorting"], 2, "invalid choice: 'sorting'"), ([], 2, "SUITE"),
                                     (["cv", "--rounds", "0"], 2, "--rounds 0: at least one round is needed"),
                                     (["cv"], 1, "nothing to compare with")]:
            result = self.compare(*words)
            self.assertEqual(result.returncode, code, words)
            self.assertIn(message, result.stderr)
            self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    unittest.main()
