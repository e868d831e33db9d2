// Encodes texts by a tokenizer.json and reports how long it took. originals/tokenize_text.py does
// the same in Python.
//
// usage: bench_tokenize_text TOKENIZER.JSON TEXTS full|ids|batches|batch|open
//
// TEXTS: a file of texts, with a zero byte after each. Truncation and padding of tokenizer.json are
// turned off. full: whole encodings, one text at a time, on one thread. ids: the same, but only ids
// are kept. batches: 1,000 texts in each call. batch: all texts in one call. open: only reads the
// tokenizer.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "accelerate/transformers/tokenizers/tokenizer.h"
#include "benchmarks/programs/measure.h"

namespace {

using accelerate::Tokenizer;

std::string read(const char* file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error(std::string(file) + " cannot be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Returns the texts in `all`, each without its zero byte.
std::vector<accelerate::TextInput> texts_of(std::string_view all) {
  std::vector<accelerate::TextInput> texts;
  for (std::size_t end = 0; (end = all.find('\0')) != std::string_view::npos;) {
    texts.push_back({all.substr(0, end)});
    all.remove_prefix(end + 1);
  }
  return texts;
}

std::size_t encode_each(const Tokenizer& tokenizer, std::span<const accelerate::TextInput> texts) {
  std::size_t tokens = 0;
  for (const auto& text : texts) tokens += tokenizer.encode(text).size();
  return tokens;
}

std::size_t encode_ids(const Tokenizer& tokenizer, std::span<const accelerate::TextInput> texts) {
  std::vector<std::uint32_t> ids;
  std::size_t tokens = 0;
  for (const auto& text : texts) {
    ids = std::move(tokenizer.encode(text).ids);
    tokens += ids.size();
  }
  return tokens;
}

std::size_t encode_batch(const Tokenizer& tokenizer, std::span<const accelerate::TextInput> texts) {
  std::size_t tokens = 0;
  for (const auto& encoding : tokenizer.encode_batch(texts)) tokens += encoding.size();
  return tokens;
}

std::size_t encode_batches(const Tokenizer& tokenizer,
                           std::span<const accelerate::TextInput> texts) {
  std::size_t tokens = 0;
  for (; !texts.empty(); texts = texts.subspan(std::min<std::size_t>(texts.size(), 1000)))
    tokens += encode_batch(tokenizer, texts.first(std::min<std::size_t>(texts.size(), 1000)));
  return tokens;
}

void run(const char* tokenizer_file, const char* text_file, std::string_view kind) {
  const auto all = read(text_file);
  const auto texts = texts_of(all);
  std::optional<Tokenizer> tokenizer;
  const double opened =
      bench::seconds_of([&] { tokenizer = Tokenizer::from_file(tokenizer_file); });
  tokenizer->set_truncation({});
  tokenizer->set_padding({});
  std::size_t tokens = 0;
  const auto encode = kind == "ids"       ? encode_ids
                      : kind == "batches" ? encode_batches
                      : kind == "batch"   ? encode_batch
                                          : encode_each;
  double seconds = 0;
  if (kind != "open") seconds = bench::seconds_of([&] { tokens = encode(*tokenizer, texts); });
  bench::report({{"open_seconds", opened},
                 {"encode_seconds", seconds},
                 {"bytes", all.size() - texts.size()},
                 {"tokens", tokens}});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4)
    throw std::invalid_argument("usage: TOKENIZER.JSON TEXTS full|ids|batches|batch|open");
  run(argv[1], argv[2], argv[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
