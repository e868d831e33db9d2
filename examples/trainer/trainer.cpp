// Fine-tunes a pretrained BERT on the topics of sayings, like the first page of the documentation
// of Transformers' Trainer:
//   accelerate launch --config_file examples/fsdp/fsdp.yaml trainer --model models/minilm
// Every argument of TrainingArguments is a flag: trainer --help.
#include <accelerate/trainer.h>

#include "examples/nlp/sayings.h"

namespace {

using namespace accelerate;

/// The program's own arguments, besides the arguments of a training.
struct ScriptArguments {
  std::string model = "models/minilm";
  std::string data = "/usr/share/games/fortunes";
};

template <typename Visit>
void visit_arguments(ScriptArguments& script, Visit&& argument) {
  argument("model", script.model, "Folder or name on the hub of a pretrained BERT.");
  argument("data", script.data, "Folder with a file of sayings for each topic.");
}

/// The arguments of the example in docs/trainer.md; flags change them.
struct Arguments : TrainingArguments {
  Arguments()
      : TrainingArguments{.output_dir = "your-model",
                          .learning_rate = 2e-5,
                          .per_device_train_batch_size = 16,
                          .per_device_eval_batch_size = 16,
                          .num_train_epochs = 2,
                          .weight_decay = 0.01,
                          .eval_strategy = "epoch",
                          .save_strategy = "epoch",
                          .load_best_model_at_end = true} {}
};

void run(const Arguments& training_args, const ScriptArguments& script) {
  set_seed(training_args.seed);  // For the new head.
  const auto tokenizer = AutoTokenizer::from_pretrained(script.model);
  const auto model = AutoModelForSequenceClassification::from_pretrained(
      script.model, {.id2label = sayings::kTopics});
  const auto dataset = sayings::load(script.data, tokenizer);
  const DataCollatorWithPadding data_collator{.tokenizer = tokenizer};

  Trainer trainer({.model = model,
                   .args = training_args,
                   .train_dataset = dataset["train"],
                   .eval_dataset = dataset["test"],
                   .processing_class = tokenizer,
                   .data_collator = data_collator,
                   .compute_metrics = Accuracy()});
  trainer.train();

  const auto metrics = trainer.evaluate();
  trainer.log_metrics("eval", metrics);
  trainer.save_metrics("eval", metrics);
  trainer.save_model();
  trainer.end();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] {
    const auto [training_args, script] =
        accelerate::parse_args<Arguments, ScriptArguments>(argc, argv);
    run(training_args, script);
  });
}
