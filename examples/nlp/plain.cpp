// Teaches a pretrained BERT to find the topic of a saying, in one process with a loop written by
// hand:
//   nlp_plain --model models/minilm
// accelerated.cpp is the same program for any number of processes, with checkpoints.
#include <accelerate/transformers.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <exception>
#include <iostream>

#include "examples/nlp/options.h"
#include "examples/nlp/sayings.h"

namespace {

using namespace accelerate;

/// Returns the share of `batches` whose topic `model` finds.
template <typename Batches>
double accuracy(PreTrainedModel& model, Batches& batches) {
  const at::NoGradGuard no_grad;
  model.eval();
  std::int64_t right = 0, all = 0;
  for (auto& batch : batches) {
    const auto guesses = model.forward(batch).logits.argmax(1);
    right += guesses.eq(batch["labels"]).sum().template item<std::int64_t>();
    all += guesses.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

void run(const Options& options) {
  if (!options.resume.empty())
    throw std::invalid_argument(
        "--resume: this program keeps no checkpoints; accelerated.cpp does");
  set_seed(static_cast<std::uint64_t>(options.seed));

  const auto tokenizer = AutoTokenizer::from_pretrained(options.model);
  const auto rows = sayings::load(options.data, tokenizer);
  const DataCollatorWithPadding collator{.tokenizer = tokenizer};
  auto train = make_data_loader(rows["train"], {.batch_size = 16, .shuffle = true}, collator);
  auto test = make_data_loader(rows["test"], {.batch_size = 64}, collator);
  auto model = AutoModelForSequenceClassification::from_pretrained(options.model,
                                                                   {.id2label = sayings::kTopics});
  torch::optim::AdamW optimizer(model->parameters(),
                                torch::optim::AdamWOptions(options.learning_rate));
  const auto batches = options.epochs * static_cast<std::int64_t>(train.size());
  const auto steps = batches / kAccumulated;

  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    model->train();
    double loss = 0;
    std::size_t number = 0;
    for (auto& batch : train) {
      auto outputs = model->forward(batch);
      (outputs.loss / static_cast<double>(kAccumulated)).backward();
      loss += outputs.loss.template item<double>() / static_cast<double>(train.size());
      if (++number % kAccumulated != 0 && number != train.size()) continue;
      torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
      optimizer.step();
      const double left =
          std::max(0.0, 1 - static_cast<double>(++step) / static_cast<double>(steps));
      for (auto& group : optimizer.param_groups())
        group.options().set_lr(options.learning_rate * left);
      optimizer.zero_grad();
    }
    std::cout << epoch_line(epoch + 1, loss, accuracy(*model, test)) << std::endl;
  }
  model->save_pretrained(options.output);
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse_options(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nlp_plain: %s\n", error.what());
  return 1;
}
