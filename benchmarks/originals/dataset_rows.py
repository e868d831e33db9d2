"""Maps a file of texts with a tokenizer, opens that map again, makes batches of it, or reads a CSV file, with Python
`datasets`, and reports how long it took. Or reads a table with pandas or pyarrow, and reports the time of the processor.

usage: dataset_rows.py map|open|batches|csv|table FILE CACHE [TOKENIZER WORKERS]

FILE: a text a line, the CSV file, or the table. CACHE: the folder of the cache. TOKENIZER: its folder. map: computes anew. open: finds
the map in the cache, and reads row 0. batches: one pass over it.
"""
import sys
import threading
import time

import datasets
import pandas
import pyarrow.json
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding

import measure


def loaded(format, file, cache):
    return datasets.load_dataset(format, data_files=file, cache_dir=cache, split="train")


def mapped(texts, tokenizer, kind, workers):
    return texts.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True,
                     num_proc=workers if workers > 1 else None, load_from_cache_file=kind != "map")


def map_texts(kind, file, cache, tokenizer, workers):
    tokenizer, texts = AutoTokenizer.from_pretrained(tokenizer), loaded("text", file, cache)
    start = time.perf_counter()
    tokens = mapped(texts, tokenizer, kind, int(workers))
    called = time.perf_counter()
    assert tokens[0]["input_ids"]
    read = time.perf_counter()
    measure.report(call_seconds=called - start, row_seconds=read - called, rows=len(tokens),
                   tokens=sum(len(ids) for batch in tokens.iter(1000) for ids in batch["input_ids"]))


def make_batches(kind, file, cache, tokenizer, workers):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    tokens = mapped(loaded("text", file, cache), tokenizer, kind, int(workers)).remove_columns("text")
    loader = DataLoader(tokens, batch_size=32, collate_fn=DataCollatorWithPadding(tokenizer))
    rows = cells = 0
    start = time.perf_counter()
    for batch in loader:
        rows += batch["input_ids"].shape[0]
        cells += batch["input_ids"].numel()
    measure.report(call_seconds=time.perf_counter() - start, rows=rows, tokens=cells)


def read_csv(kind, file, cache):
    """With the most KiB of memory, anonymous and all that is resident, which a thread looks at."""
    peaks, ended = {"RssAnon": 0, "VmRSS": 0}, threading.Event()

    def watch():
        while not ended.wait(0.002):
            for key in peaks:
                peaks[key] = max(peaks[key], measure.status_kib(key))

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    rows = loaded("csv", file, cache)
    seconds = time.perf_counter() - start
    ended.set()
    watcher.join()
    measure.report(call_seconds=seconds, rows=len(rows), tokens=0, peak_anonymous_kib=peaks["RssAnon"],
                   peak_resident_kib=peaks["VmRSS"])


def read_table(kind, file, cache):
    start = time.process_time()
    rows = pandas.read_csv(file) if file.endswith(".csv") else pyarrow.json.read_json(file)
    measure.report(cpu_seconds=time.process_time() - start, rows=len(rows), tokens=0)


def main(kind, *words):
    datasets.disable_progress_bars()
    {"map": map_texts, "open": map_texts, "batches": make_batches, "csv": read_csv, "table": read_table}[kind](kind, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
