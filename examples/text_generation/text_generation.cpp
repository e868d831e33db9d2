// Continues a text, and prints the words as they come:
//   text_generation --model models/smollm2 --prompt "The sea is" --do_sample 1 --temperature 0.8
#include <accelerate/base/run_main.h>
#include <accelerate/transformers.h>

#include <iostream>
#include <stdexcept>
#include <string>

#include "examples/common/flags.h"

namespace {

using namespace accelerate;

struct Options {
  std::string model;      ///< A decoder with its tokenizer.
  std::string gguf_file;  ///< A file of weights in the folder, instead of safetensors.
  std::string dtype = "auto";
  std::string prompt = "Gravity is";
  std::string stop;  ///< A text that ends the answer.
  std::int64_t max_new_tokens = 60, num_beams = 1, do_sample = 0, top_k = 50, seed = 0;
  double temperature = 1, top_p = 1, repetition_penalty = 1;
};

Options parse_options(int argc, char** argv) {
  Options options;
  flags::parse(argc, argv,
               {{"--model", "NAME_OR_DIR", &options.model},
                {"--gguf_file", "FILE", &options.gguf_file},
                {"--dtype", "TYPE", &options.dtype},
                {"--prompt", "TEXT", &options.prompt},
                {"--stop", "TEXT", &options.stop},
                {"--max_new_tokens", "N", &options.max_new_tokens},
                {"--num_beams", "N", &options.num_beams},
                {"--do_sample", "0|1", &options.do_sample},
                {"--top_k", "N", &options.top_k},
                {"--seed", "N", &options.seed},
                {"--temperature", "R", &options.temperature},
                {"--top_p", "R", &options.top_p},
                {"--repetition_penalty", "R", &options.repetition_penalty}});
  if (options.model.empty())
    throw std::invalid_argument(
        "--model is missing: `.venv/bin/python tools/fetch_models.py models smollm2` makes the "
        "folder models/smollm2");
  return options;
}

void run(const Options& options) {
  set_seed(static_cast<std::uint64_t>(options.seed));
  const auto tokenizer = AutoTokenizer::from_pretrained(options.model);
  const auto model = AutoModelForCausalLM::from_pretrained(
      options.model, {.gguf_file = options.gguf_file, .dtype = options.dtype});
  GenerationConfig config{.max_new_tokens = options.max_new_tokens,
                          .do_sample = options.do_sample != 0,
                          .num_beams = options.num_beams,
                          .temperature = options.temperature,
                          .top_k = options.top_k,
                          .top_p = options.top_p,
                          .repetition_penalty = options.repetition_penalty};
  if (!options.stop.empty()) config.stop_strings = {options.stop};
  GenerateOptions more{.tokenizer = tokenizer};
  const auto print = [](std::string_view text) { std::cout << text << std::flush; };
  if (options.num_beams == 1) more.stream_text = print;

  const Inputs inputs = to_inputs(tokenizer({options.prompt}));
  print(options.prompt);
  const at::Tensor ids = model->generate(inputs, config, more).select(0, 0);
  if (options.num_beams > 1) {  // A beam search knows its text only at the end.
    const auto* begin = ids.const_data_ptr<std::int64_t>();
    const std::vector<std::int64_t> added(begin + inputs["input_ids"].size(1), begin + ids.numel());
    print(tokenizer.decode(added, /*skip_special_tokens=*/true));
  }
  std::cout << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(parse_options(argc, argv)); });
}
