// Opens a decoder and continues one row of text with the likeliest tokens.
// originals/generate_tokens.py does the same in Python.
//
// usage: bench_generate_tokens FOLDER NEW_TOKENS
//
// FOLDER: a model of Hugging Face. Reports how long opening takes, the time of each token after the
// first, and a checksum of all tokens.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <string>

#include "accelerate/transformers/models/auto_model.h"
#include "benchmarks/programs/measure.h"

namespace {

using namespace accelerate;

constexpr std::int64_t kPrompt = 16;  // Tokens, ids from 1000 on in steps of 37.

void run(const std::string& folder, std::int64_t new_tokens) {
  std::shared_ptr<PreTrainedModel> model;
  const double opening =
      bench::seconds_of([&] { model = AutoModelForCausalLM::from_pretrained(folder); });
  const Inputs prompt{{"input_ids", (at::arange(kPrompt, at::kLong) * 37 + 1000).unsqueeze(0)}};
  at::Tensor ids;
  const auto generate = [&](std::int64_t count) {
    return bench::seconds_of([&] {
      ids = model->generate(prompt,
                            {.max_new_tokens = count, .min_new_tokens = count, .do_sample = false});
    });
  };
  const double first = generate(1);  // Reads the weights too.
  const double warm = generate(1), all = generate(new_tokens);
  bench::report({{"open_seconds", opening},
                 {"first_seconds", first},
                 {"token_seconds", (all - warm) / static_cast<double>(new_tokens - 1)},
                 {"checksum", ids.sum().item<std::int64_t>()}});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::invalid_argument("usage: bench_generate_tokens FOLDER NEW_TOKENS");
  run(argv[1], std::stoll(argv[2]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
