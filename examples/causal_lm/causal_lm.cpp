// Trains a pretrained decoder on a text, and lets it write before and after:
//   accelerate launch --num_processes 2 causal_lm --model models/smollm2
#include <accelerate/transformers.h>
#include <torch/optim/adamw.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "examples/causal_lm/options.h"

namespace {

using namespace accelerate;

/// Returns rows of `block_size` tokens, cut from the whole text. A shorter rest at its end is
/// dropped.
Dataset blocks_of(const Options& options, const PreTrainedTokenizer& tokenizer) {
  std::ifstream file(options.text, std::ios::binary);
  if (!file) throw std::runtime_error(options.text + " cannot be opened; name another by --text");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto ids = tokenizer.encode(text, {.add_special_tokens = false});
  std::vector<Row> rows;
  for (auto at = ids.begin(); ids.end() - at >= options.block_size; at += options.block_size) {
    const std::vector<std::int64_t> block(at, at + options.block_size);
    rows.push_back(Row{{"input_ids", block}, {"labels", block}});
  }
  if (rows.empty())
    throw std::runtime_error(options.text + " has " + std::to_string(ids.size()) +
                             " tokens, and a row takes " + std::to_string(options.block_size) +
                             "; set --block_size");
  return Dataset::from_rows(rows);
}

void run(const Options& options) {
  Accelerator accelerator;
  set_seed(42);
  const auto tokenizer = AutoTokenizer::from_pretrained(options.model);
  auto blocks = make_data_loader(blocks_of(options, tokenizer),
                                 {.batch_size = options.batch_size, .shuffle = true});
  auto net = AutoModelForCausalLM::from_pretrained(options.model);
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(options.learning_rate));
  auto [model, optimizer, train] = accelerator.prepare(net, adamw, blocks);

  const auto write = [&](const std::string& when) {
    if (!accelerator.is_main_process()) return;
    const auto ids = accelerator.unwrap_model(model)->generate(
        to_inputs(tokenizer({options.prompt})), {.max_new_tokens = options.new_tokens});
    const std::vector<std::int64_t> row(ids.const_data_ptr<std::int64_t>(),
                                        ids.const_data_ptr<std::int64_t>() + ids.size(1));
    accelerator.print(when + ": " + tokenizer.decode(row, /*skip_special_tokens=*/true));
  };
  write("before");
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    model->train();
    double loss = 0;
    for (auto& batch : progress(train, {.description = "epoch " + std::to_string(epoch)})) {
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);
      accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
      loss += outputs.loss.template item<double>() / static_cast<double>(train.size());
    }
    accelerator.print("epoch " + std::to_string(epoch) + ": loss " + std::to_string(loss));
  }
  write("after");
  accelerator.unwrap_model(model)->save_pretrained(
      options.output, {.is_main_process = accelerator.is_main_process()});
  if (accelerator.is_main_process()) tokenizer.save_pretrained(options.output);
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(parse_options(argc, argv)); });
}
