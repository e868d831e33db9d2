// Fine-tunes a decoder on a text and lets it write on. The text is packed: its tokens are cut into
// rows of one length, so that no step computes padding.
//   causal_lm --text my.txt --model models/smollm2 --prompt "I saw the moon"
#include <accelerate/transformers.h>
#include <torch/optim/adamw.h>

#include <string>

#include "examples/cookbook/model_of.h"
#include "examples/cookbook/rounded.h"

namespace {
using namespace accelerate;

struct Arguments {
  std::string model = "examples/cookbook/data/tiny_llama";
  std::string text = "examples/cookbook/data/song.txt";
  std::string output = "causal_lm_output";
  std::string prompt = "the king went";
  std::int64_t block_size = 32, batch_size = 4, epochs = 40, new_tokens = 14;
  double learning_rate = 1e-2, temperature = 0.5;
};

template <typename Visit>
void visit_arguments(Arguments& mine, Visit&& argument) {
  argument("model", mine.model, "A pretrained decoder, or a folder without weights.");
  argument("text", mine.text, "A file in UTF-8.");
  argument("output", mine.output, "The folder that gets the trained model.");
  argument("prompt", mine.prompt, "The beginning of what the model writes.");
  argument("block_size", mine.block_size, "Tokens in a row.");
  argument("batch_size", mine.batch_size, "Rows in a batch of each process.");
  argument("epochs", mine.epochs, "Passes over the text.");
  argument("new_tokens", mine.new_tokens, "Tokens that the model writes.");
  argument("learning_rate", mine.learning_rate, "Of AdamW; 2e-5 suits a pretrained model.");
  argument("temperature", mine.temperature, "Below 1: likely words are drawn more often.");
}

/// Returns rows of `block_size` tokens. A shorter rest at the end of the text is dropped.
Dataset packed(const Arguments& mine, const PreTrainedTokenizer& tokenizer) {
  if (mine.block_size < 2) throw ConfigError("--block_size: 2 is the least, a token and its next");
  const auto lines = load_dataset("text", {.data_files = mine.text}).only();
  std::vector<std::int64_t> ids;
  for (const Row& line : lines) {
    const auto more = tokenizer.encode(line["text"].text() + "\n", {.add_special_tokens = false});
    ids.insert(ids.end(), more.begin(), more.end());
  }
  std::vector<Row> rows;
  for (auto at = ids.begin(); ids.end() - at >= mine.block_size; at += mine.block_size) {
    const std::vector<std::int64_t> block(at, at + mine.block_size);
    rows.push_back(Row{{"input_ids", block}, {"labels", block}});
  }
  if (rows.empty())
    throw DataError(mine.text + " has " + std::to_string(ids.size()) + " tokens, and a row takes " +
                    std::to_string(mine.block_size) + "; set --block_size");
  return Dataset::from_rows(rows);
}

void run(const Arguments& mine) {
  Accelerator accelerator;
  set_seed(42);
  const auto tokenizer = AutoTokenizer::from_pretrained(mine.model);
  const auto net = model_of<AutoModelForCausalLM>(mine.model);
  auto blocks =
      make_data_loader(packed(mine, tokenizer), {.batch_size = mine.batch_size, .shuffle = true});
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(mine.learning_rate));
  auto [model, optimizer, train] = accelerator.prepare(net, adamw, blocks);

  for (std::int64_t epoch = 1; epoch <= mine.epochs; ++epoch) {
    model->train();
    double loss = 0;
    for (auto& batch : train) {
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);
      accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
      loss += outputs.loss.template item<double>() / static_cast<double>(train.size());
    }
    if (epoch == 1 || epoch == mine.epochs)
      accelerator.print("epoch", epoch, "loss", rounded(loss));
  }

  model->eval();
  const auto inputs = send_to_device(to_inputs(tokenizer({mine.prompt})), accelerator.device());
  const auto ids = net->generate(inputs, {.max_new_tokens = mine.new_tokens,
                                          .do_sample = true,
                                          .temperature = mine.temperature})
                       .cpu();
  const auto* tokens = ids.const_data_ptr<std::int64_t>();
  accelerator.print(tokenizer.decode({tokens, tokens + ids.size(1)}, true));
  net->save_pretrained(mine.output, {.is_main_process = accelerator.is_main_process()});
  if (accelerator.is_main_process()) tokenizer.save_pretrained(mine.output);
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(accelerate::parse_args<Arguments>(argc, argv)); });
}
