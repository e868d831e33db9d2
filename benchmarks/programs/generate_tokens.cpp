// Opens a decoder and continues one row of text with the likeliest tokens.
// originals/generate_tokens.py does the same in Python.
//
// usage: bench_generate_tokens FOLDER NEW_TOKENS [auto|float32|bfloat16 [profile]]
//
// FOLDER: a model of Hugging Face. Reports how long opening takes, the time of each token after the
// first, and a checksum of all tokens; and how fast the fastest token reads its weights, as a share
// of what the machine reads from memory in the same minute. With "profile", prints where a token
// spends its time, by operator, instead.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>

#include "accelerate/transformers/models/auto_model.h"
#include "accelerate/watch/profiler/profiler.h"
#include "benchmarks/programs/measure.h"
#include "benchmarks/programs/stream_read.h"

namespace {

using namespace accelerate;

constexpr std::int64_t kPrompt = 16;  // Tokens, ids from 1000 on in steps of 37.
constexpr int kReads = 10;            // Of the machine's memory, before and after.

// Returns the bytes of the weights that a token reads. Of word embeddings it reads one row; where
// the layer of scores shares them, parameters() has them twice.
std::size_t bytes_of_token(PreTrainedModel& model) {
  std::size_t bytes = 0;
  for (const at::Tensor& weight : model.parameters()) bytes += weight.nbytes();
  return bytes - model.input_embeddings()->weight.nbytes();
}

// Returns the least time between two tokens: other programs slow most tokens down, and few reads.
double fastest_token(PreTrainedModel& model, const Inputs& prompt, std::int64_t new_tokens) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> last;
  double fastest = std::numeric_limits<double>::infinity();
  const auto note = [&](const at::Tensor&) {
    const auto now = Clock::now();
    if (last) fastest = std::min(fastest, std::chrono::duration<double>(now - *last).count());
    last = now;
  };
  (void)model.generate(
      prompt, {.max_new_tokens = new_tokens, .min_new_tokens = new_tokens, .do_sample = false},
      {.stream_tokens = note});
  return fastest;
}

void run(const std::string& folder, std::int64_t new_tokens, const std::string& type,
         bool profiles) {
  std::shared_ptr<PreTrainedModel> model;
  const double opening = bench::seconds_of(
      [&] { model = AutoModelForCausalLM::from_pretrained(folder, {.dtype = type}); });
  const Inputs prompt{{"input_ids", (at::arange(kPrompt, at::kLong) * 37 + 1000).unsqueeze(0)}};
  at::Tensor ids;
  const auto generate = [&](std::int64_t count) {
    return bench::seconds_of([&] {
      ids = model->generate(prompt,
                            {.max_new_tokens = count, .min_new_tokens = count, .do_sample = false});
    });
  };
  const double first = generate(1);  // Reads the weights too.
  if (profiles) {
    Profiler profiler;
    generate(new_tokens);
    profiler.stop();
    std::puts(to_table(profiler.key_averages(), {.row_limit = 60}).c_str());
    return;
  }
  const std::size_t bytes = bytes_of_token(*model);
  bench::StreamRead stream(bytes);
  for (int i = 0; i < kReads; ++i) (void)stream.bytes_per_second();
  const double warm = generate(1), all = generate(new_tokens);
  const double fastest = fastest_token(*model, prompt, new_tokens);
  for (int i = 0; i < kReads; ++i) (void)stream.bytes_per_second();
  const double bytes_per_second = static_cast<double>(bytes) / fastest;
  bench::report({{"open_seconds", opening},
                 {"first_seconds", first},
                 {"token_seconds", (all - warm) / static_cast<double>(new_tokens - 1)},
                 {"fastest_token_seconds", fastest},
                 {"weights_gb_per_second", bytes_per_second / 1e9},
                 {"share_of_stream_read", bytes_per_second / stream.bytes_per_second()},
                 {"checksum", ids.sum().item<std::int64_t>()}});
}

}  // namespace

int main(int argc, char** argv) try {
  const bool profiles = argc == 5 && std::string(argv[4]) == "profile";
  if (argc < 3 || argc > (profiles ? 5 : 4)) {
    throw std::invalid_argument(
        "usage: bench_generate_tokens FOLDER NEW_TOKENS [auto|float32|bfloat16 [profile]]");
  }
  run(argv[1], std::stoll(argv[2]), argc > 3 ? argv[3] : "auto", profiles);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
