// Reports how long one of these takes: mapping a file of texts with a tokenizer, opening that map
// again, making batches of it, or reading a CSV file. Or the processor's time for reading a table,
// CSV or JSON. originals/dataset_rows.py does the same in Python.
//
// usage: bench_dataset_rows map|open|batches|csv|table FILE CACHE [TOKENIZER WORKERS]
//
// FILE: the texts, one a line, the CSV file, or the table. CACHE: the folder of the cache. TOKENIZER: its
// folder. map: computes anew. open: finds the map in the cache, and reads row 0. batches: one pass
// over it.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <string_view>
#include <thread>

#include "accelerate/transformers.h"
#include "benchmarks/programs/measure.h"

namespace {

using accelerate::Dataset;
using accelerate::PreTrainedTokenizer;
using accelerate::RowBatch;

struct Words {
  std::string_view kind;
  std::string file, cache, tokenizer = {};
  std::size_t workers = 1;
};

Dataset loaded(const Words& words, std::string_view format) {
  return accelerate::load_dataset(format, {.data_files = words.file,
                                           .load_from_cache_file = words.kind != "table",
                                           .cache_dir = words.cache})
      .only();
}

Dataset mapped(const Dataset& texts, const PreTrainedTokenizer& tokenizer, const Words& words) {
  return texts.map(
      [&](const RowBatch& batch) { return tokenizer(batch.texts("text"), {.truncation = true}); },
      {.name = "tokens",
       .num_proc = words.workers,
       .load_from_cache_file = words.kind != "map",
       .cache_dir = words.cache});
}

std::size_t tokens_of(const Dataset& dataset) {
  std::size_t tokens = 0;
  for (const auto& row : dataset) tokens += row["input_ids"].integers().size();
  return tokens;
}

void map_texts(const Words& words) {
  const auto tokenizer = PreTrainedTokenizer::from_pretrained(words.tokenizer);
  const Dataset texts = loaded(words, "text");
  Dataset tokens;
  accelerate::Row first;
  const double map = bench::seconds_of([&] { tokens = mapped(texts, tokenizer, words); });
  const double row = bench::seconds_of([&] { first = tokens[0]; });
  if (first["input_ids"].integers().empty()) throw std::runtime_error("row 0 has no tokens");
  bench::report({{"call_seconds", map},
                 {"row_seconds", row},
                 {"rows", tokens.size()},
                 {"tokens", tokens_of(tokens)}});
}

void make_batches(const Words& words) {
  const auto tokenizer = PreTrainedTokenizer::from_pretrained(words.tokenizer);
  const Dataset tokens = mapped(loaded(words, "text"), tokenizer, words).remove_columns({"text"});
  auto loader = accelerate::make_data_loader(tokens, {.batch_size = 32},
                                             accelerate::DataCollatorWithPadding{tokenizer});
  std::int64_t rows = 0, cells = 0;
  const double seconds = bench::seconds_of([&] {
    for (auto& batch : loader) {
      rows += batch["input_ids"].size(0);
      cells += batch["input_ids"].numel();
    }
  });
  bench::report({{"call_seconds", seconds}, {"rows", rows}, {"tokens", cells}});
}

// Returns the peaks, in KiB, of anonymous and of all resident memory while `work` runs.
template <typename Work>
std::pair<std::int64_t, std::int64_t> peaks_during(Work&& work) {
  std::pair<std::int64_t, std::int64_t> peaks;
  std::jthread watch([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      peaks.first = std::max(peaks.first, bench::status_kib("RssAnon"));
      peaks.second = std::max(peaks.second, bench::status_kib("VmRSS"));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  work();
  watch.request_stop();
  watch.join();
  return peaks;
}

void read_csv(const Words& words) {
  Dataset rows;
  double seconds = 0;
  const auto [anonymous, resident] =
      peaks_during([&] { seconds = bench::seconds_of([&] { rows = loaded(words, "csv"); }); });
  bench::report({{"call_seconds", seconds},
                 {"rows", rows.size()},
                 {"tokens", 0},
                 {"peak_anonymous_kib", anonymous},
                 {"peak_resident_kib", resident}});
}

// Of all threads.
void read_table(const Words& words) {
  const std::clock_t start = std::clock();
  const Dataset rows = loaded(words, words.file.ends_with(".csv") ? "csv" : "json");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  bench::report({{"cpu_seconds", seconds}, {"rows", rows.size()}, {"tokens", 0}});
}

void run(const Words& words) {
  if (words.kind == "table") return read_table(words);
  if (words.kind == "csv") return read_csv(words);
  if (words.kind == "batches") return make_batches(words);
  map_texts(words);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4 && argc != 6)
    throw std::invalid_argument("usage: map|open|batches|csv|table FILE CACHE [TOKENIZER WORKERS]");
  Words words{.kind = argv[1], .file = argv[2], .cache = argv[3]};
  if (argc == 6) {
    words.tokenizer = argv[4];
    words.workers = std::stoul(argv[5]);
  }
  run(words);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
