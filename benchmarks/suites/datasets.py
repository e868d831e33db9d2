"""Rows of text and tokens: ours and Python `datasets` on the same files.

- **Map**: a `map` of 100,000 English texts of about 100 bytes, a text a row, by the tokenizer of all-MiniLM-L6-v2 with
  truncation, in batches of 1000. Ours gets `tokenizer(batch.texts("text"), {.truncation = true})`, theirs
  `lambda batch: tokenizer(batch["text"], truncation=True)` with `batched=True`. Both write ids, types, masks and the text to
  the cache. Both sides report the number of their rows and tokens, and a difference ends the run.
- **Workers** are threads in ours, processes in theirs (`num_proc`), whose start is part of the call. One worker is the
  default of both: `num_proc=1` in ours, none in theirs. Then a tokenizer uses all cores inside its own call, on both sides.
- **A cached map again**: a new process, whose `map` finds its result in the cache. Measured is the call until the row 0 of
  the result has been read; loading texts and tokenizer comes before. A run ends if it writes another map.
- **Batches**: one pass of a new process over the cached map, 32 rows a batch, padded by `DataCollatorWithPadding`, without
  workers: `make_data_loader` in ours, torch's `DataLoader` in theirs.
- **CSV**: `load_dataset("csv")` of 1 GB, with columns of integers, texts and floats; most texts are quoted. Each side reads
  once, from the page cache, and writes its own cache.
- **A table** has 10^6 rows of a number, a sentence, a float, a class and a boolean. Ours is `load_dataset`, which keeps the
  rows in its cache; theirs is `pandas.read_csv`, and `pyarrow.json.read_json` for lines of JSON, into memory. Measured is
  the time of the processor, of all threads.
- **Anonymous memory** is what the process has allocated (`RssAnon`). **Resident memory** (`VmRSS`) counts pages of mapped
  files too, which the kernel takes back when it needs them. Both are the most that a thread saw every two milliseconds,
  with what the process held before the call.
- benchmarks/collect_texts.py fetches the texts, benchmarks/make_rows.py makes the files of them.
"""
import os
import subprocess

from harness import FOLDER, BenchmarkError, Contender, Summary, alternate, run, sample
from report import AtMost, Row, Times
from suites.tokenizers import DATA, prepare

TITLE = "Datasets: ours and Python datasets"
PROGRAMS = ("dataset_rows",)
PACKAGES = ("transformers", "datasets")
ROUNDS = 3
TOKENIZER = DATA / "minilm"


def make_files(setting, say):
    """Makes the files of the run; tells how many texts there are, how large the CSV file is, and how long the tables are."""
    count, size, rows = (2000, 1_000_000, 10_000) if setting.quick else (100_000, 1_000_000_000, 1_000_000)
    say("making the files")
    asked = subprocess.run([setting.venv / "bin" / "python", FOLDER / "make_rows.py", DATA / "english.txt", folder(setting),
                            str(count), str(size), str(rows)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise BenchmarkError(asked.stderr.strip() or f"make_rows.py ended with {asked.returncode}")
    return f"{count:,} texts", f"{size / 1e9:g} GB", f"{rows:,} rows"


def folder(setting):
    return setting.home / "dataset_rows"


def contenders(setting, kind, file, *words, workers=1):
    """What both sides report, each with a cache of its own: theirs takes the number of workers from an older map."""
    def reporting(name, *command):
        cache = folder(setting) / f"cache of {name}, {workers}"
        command = [*command, kind, folder(setting) / file, cache, *words]
        return Contender(name, lambda: run(setting, command).report())
    return [reporting("ours", setting.program("dataset_rows")),
            reporting("theirs", setting.venv / "bin" / "python", setting.original("dataset_rows"))]


def checked(samples):
    """`samples`, if both sides agree on what they did."""
    counts = {(report["rows"], report["tokens"]) for side in samples.values() for report in side}
    if len(counts) != 1:
        raise BenchmarkError(f"the two sides report different (rows, tokens): {counts}")
    return samples


def compared(setting, say, kind, workers):
    found = contenders(setting, kind, "texts.txt", TOKENIZER, workers, workers=workers)
    return checked(alternate(found, setting.rounds, say))


def row(what, unit, samples, quantity, target=None):
    """`quantity`: of a report."""
    summaries = {side: Summary.of(map(quantity, reports)) for side, reports in samples.items()}
    return Row(what, unit, summaries["ours"], summaries["theirs"], target)


def map_rows(setting, say, texts):
    cores = len(os.sched_getaffinity(0))
    for workers, target in ((cores, Times(10)), (1, None)):
        samples = compared(setting, say, "map", workers)
        yield row(f"map of {texts}, {workers} worker{'s' if workers > 1 else ''}", "s", samples,
                  lambda report: report["call_seconds"], target)


def opening_rows(setting, say):
    before = caches(setting)
    samples = compared(setting, say, "open", 1)
    if caches(setting) != before:
        raise BenchmarkError("a map was computed again, which the cache should have had")
    yield row("a cached map again, until row 0 is read", "ms", samples,
              lambda report: (report["call_seconds"] + report["row_seconds"]) * 1e3, AtMost(20))
    yield row("the call of map alone", "ms", samples, lambda report: report["call_seconds"] * 1e3)


def caches(setting):
    """The files of both caches, with the time when each was written."""
    files = [file for suffix in ("arrow", "table") for file in folder(setting).rglob(f"*.{suffix}")]
    return {file: file.stat().st_mtime_ns for file in files}


def batch_row(setting, say):
    samples = compared(setting, say, "batches", 1)
    return row("batches of 32 of the map", "ms/1000 rows", samples,
               lambda report: report["call_seconds"] * 1e6 / report["rows"])


def table_rows(setting, say, rows):
    for kind, name, original in (("csv", "CSV", "pandas"), ("jsonl", "lines of JSON", "pyarrow")):
        found = contenders(setting, "table", f"table.{kind}")
        samples = checked(alternate(found, setting.rounds, say))
        yield row(f"{name} of {rows}, beside {original}, of the processor", "s", samples, lambda report: report["cpu_seconds"], Times(1))


def csv_rows(setting, say, size):
    samples = {}
    for contender in contenders(setting, "csv", "rows.csv"):
        say(f"reading CSV: {contender.name}")
        samples[contender.name] = [sample(contender, say)]
    checked(samples)
    yield row(f"CSV of {size}", "s", samples, lambda report: report["call_seconds"])
    yield row(f"CSV of {size}, anonymous memory at most", "MB", samples,
              lambda report: report["peak_anonymous_kib"] * 1024 / 1e6, AtMost(256))
    yield row(f"CSV of {size}, resident memory at most", "MB", samples,
              lambda report: report["peak_resident_kib"] * 1024 / 1e6)


def measure(setting, say):
    prepare(setting, say)
    texts, size, rows = make_files(setting, say)
    return [*map_rows(setting, say, texts), *opening_rows(setting, say), batch_row(setting, say),
            *csv_rows(setting, say, size), *table_rows(setting, say, rows)]
