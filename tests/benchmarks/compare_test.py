"""benchmarks/compare without the programs it measures: how it takes turns, sums up, judges, and refuses."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks"))
import harness  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
from harness import BenchmarkError, Contender, Setting, Summary  # noqa: E402
from report import AtMost, Both, OfBound, Row, Times  # noqa: E402
from suites import comm, fsdp  # noqa: E402
ROWS = {"launch": 7, "cv": 5, "loop": 2, "optimizer": 10, "loader": 6, "checkpoint": 7,
        "comm": 154, "tokenizers": 18, "datasets": 8, "hub": 2, "models": 7 if fsdp.has_fast_bf16() else 5, "fsdp": 11 if fsdp.has_fast_bf16() else 9}  # Every suite, and how many rows it has.

# Stands for every program: reports what any of them would.
REPORTING = """#!/bin/sh
echo some line before
echo '{"finished_ns": '$(date +%s%N)', "ranks": 2, "resident_kib": 1000, "peak_kib": 2000,
 "block_seconds": [0.1, 0.3], "step_seconds": [0.4], "plain_seconds": [0.2], "accelerated_seconds": [0.1],
 "save_seconds": 0.3, "extra_kib": 4096, "map_seconds": [0.1], "load_seconds": 0.2, "stall_seconds": [0.1],
 "backend": "gloo", "computed_in": "BFloat16", "encode_seconds": 0.1, "open_seconds": 0.1, "bytes": 1000000, "tokens": 5, "batches": 1, "loss": 2.0, "pass_seconds": 0.1, "token_seconds": 0.1, "checksum": 7, "rows": 1000, "call_seconds": 0.01, "row_seconds": 0.001, "peak_anonymous_kib": 1000, "peak_resident_kib": 2000, "proportional_mib": 500, "seconds": {COLLECTIVES}, "copy_seconds": [0.1], "first_seconds": 0.3, "default_seconds": [0.2], "fused_seconds": [0.1], "epoch_seconds": [0.1], "samples": 100}' | tr -d '\\n'
""".replace("{COLLECTIVES}", json.dumps({name: [0.1] for name in [*comm.names_of(4), "memory"]}))


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make_build(folder):
    executable(folder / "bin" / "accelerate", REPORTING)
    for program in ("no_op", "collectives", "transformer_steps", "first_collective", "train_steps", "interleaved_steps", "loop_steps", "optimizer_steps",
                    "loader_epochs", "checkpoint", "sharded_steps", "watched_steps", "tokenize_text", "hub_snapshot", "dataset_rows", "model_steps", "generate_tokens"):
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


class Refusals(WithFolder):
    def test_other_versions_than_the_pinned_are_refused(self):
        for versions, message in [({"torch": "2.12.1"}, "torch 2.12.1, .* install"),
                                  ({"accelerate": "1.14.0"}, "accelerate 1.14.0, .* install")]:
            make_venv(self.folder / "venv", **versions)
            with self.assertRaisesRegex(BenchmarkError, message):
                machine.original_versions(self.folder / "venv")

    def test_a_python_that_cannot_draw_is_refused_before_anything_is_measured(self):
        executable(self.folder / "venv" / "bin" / "python", "#!/bin/sh\nexit 1\n")
        with self.assertRaisesRegex(BenchmarkError, "has no matplotlib, .* -r benchmarks/requirements.txt"):
            machine.check_package(self.folder / "venv", "matplotlib")

    def test_absent_originals_and_an_absent_build_are_refused(self):
        with self.assertRaisesRegex(BenchmarkError, "nothing to compare with; scripts/setup"):
            machine.original_versions(self.folder / "venv")
        with self.assertRaisesRegex(BenchmarkError, "bin/accelerate is missing: build it with `cmake"):
            machine.check_build(self.setting, ())


class Command(WithFolder):
    def compare(self, *words):
        command = [sys.executable, "-B", ROOT / "benchmarks" / "compare", *words, "--build", self.folder / "build",
                   "--venv", self.folder / "venv"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_all_suites_print_their_rows_and_write_their_pages(self):
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
