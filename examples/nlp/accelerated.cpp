// Teaches a pretrained BERT to find the topic of a saying, on as many processes as it is launched
// on:
//   accelerate launch --num_processes 2 nlp_accelerated --model models/minilm
// plain.cpp is the same program for one process. Compare the two.
#include <accelerate/transformers.h>
#include <torch/optim/adamw.h>

#include "examples/nlp/options.h"
#include "examples/nlp/sayings.h"

namespace {

using namespace accelerate;

/// What a checkpoint keeps beside the prepared objects.
struct Best {
  double accuracy = 0;
  [[nodiscard]] StateDict state_dict() const { return {{"accuracy", accuracy}}; }
  void load_state_dict(const StateDict& state) { accuracy = state.at("accuracy").to<double>(); }
};

/// Returns the share of all ranks' `batches` whose topic `model` finds. [collective]
template <typename Model, typename Batches>
double accuracy(Model& model, Batches& batches, Accelerator& accelerator) {
  const at::NoGradGuard no_grad;
  model->eval();
  std::int64_t right = 0, all = 0;
  for (auto& batch : batches) {
    auto [guesses, truths] =
        accelerator.gather_for_metrics(std::pair{model(batch).logits.argmax(1), batch["labels"]});
    right += guesses.eq(truths).sum().template item<std::int64_t>();
    all += truths.size(0);
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

void run(const Options& options) {
  Accelerator accelerator(
      {.gradient_accumulation_steps = kAccumulated,
       .project_dir = options.output,
       .project_config = {.automatic_checkpoint_naming = true, .total_limit = 2},
       .scheduler_step = SchedulerStep::per_process});
  set_seed(static_cast<std::uint64_t>(options.seed));

  const auto tokenizer = AutoTokenizer::from_pretrained(options.model);
  const auto rows = sayings::load(options.data, tokenizer);
  const DataCollatorWithPadding collator{.tokenizer = tokenizer};
  auto train_rows = make_data_loader(rows["train"], {.batch_size = 16, .shuffle = true}, collator);
  auto test_rows = make_data_loader(rows["test"], {.batch_size = 64}, collator);
  auto net = AutoModelForSequenceClassification::from_pretrained(options.model,
                                                                 {.id2label = sayings::kTopics});
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(options.learning_rate));
  const auto batches = options.epochs * static_cast<std::int64_t>(train_rows.size());
  auto linear = get_scheduler(
      "linear", adamw, {.num_warmup_steps = 0, .num_training_steps = batches / kAccumulated});
  auto [model, optimizer, train, test, schedule] =
      accelerator.prepare(net, adamw, train_rows, test_rows, linear);
  Best best;
  accelerator.register_for_checkpointing(best);
  if (!options.resume.empty())
    accelerator.load_state(options.resume == "newest" ? "" : options.resume);

  for (auto epoch = train.epoch(); epoch < options.epochs; ++epoch) {
    model->train();
    double loss = 0;
    for (auto& batch : progress(train, {.description = "epoch " + std::to_string(epoch + 1)})) {
      auto window = accelerator.accumulate(model);
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      schedule.step();
      optimizer.zero_grad();
      loss += outputs.loss.template item<double>() / static_cast<double>(train.size());
    }
    const double share = accuracy(model, test, accelerator);
    if (share > best.accuracy) {
      best.accuracy = share;
      accelerator.save_model(model, options.output + "/best");
    }
    accelerator.print(epoch_line(epoch + 1, loss, share));
    accelerator.save_state();
  }
  accelerator.print("best accuracy: " + std::to_string(best.accuracy));
  accelerator.unwrap_model(model)->save_pretrained(
      options.output, {.is_main_process = accelerator.is_main_process()});
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(parse_options(argc, argv)); });
}
