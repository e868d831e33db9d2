// Classifies the rows of a CSV file by its columns of numbers and of words. Rows with an empty
// cell are left out.
//   classify_csv --data my.csv --label kind
#include <accelerate/trainer.h>
#include <torch/torch.h>

#include <algorithm>
#include <iostream>

#include "examples/cookbook/rounded.h"

namespace {
using namespace accelerate;

struct ScriptArguments {
  std::string data = "examples/cookbook/data/houses.csv";
  std::string label = "price";
};

template <typename Visit>
void visit_arguments(ScriptArguments& script, Visit&& argument) {
  argument("data", script.data, "The CSV file.");
  argument("label", script.label, "The column that holds the answer.");
}

struct Arguments : TrainingArguments {
  Arguments()
      : TrainingArguments{.output_dir = "classify_csv_output",
                          .learning_rate = 1e-2,
                          .per_device_train_batch_size = 16,
                          .num_train_epochs = 30,
                          .save_strategy = "no",
                          .report_to = {"none"}} {}
};

/// Returns rows of "features", numbers, and "labels", the class. A word becomes a list of zeros
/// with a one at the place of the word.
Dataset encoded(const Dataset& rows, const std::string& label) {
  return rows.map(
      [&](const Row& row) {
        std::vector<double> features;
        for (const auto& name : rows.column_names()) {
          if (name == label) continue;
          const auto& words = rows.feature(name).names();  // None: a column of numbers.
          if (words.empty()) features.push_back(row[name].number());
          for (std::size_t word = 0; word < words.size(); ++word)
            features.push_back(row[name].integer() == static_cast<std::int64_t>(word));
        }
        return Row{{"features", features}, {"labels", row[label].integer()}};
      },
      {.remove_columns = rows.column_names()});
}

/// The first layer brings all columns to one scale.
torch::nn::Sequential make_net(std::int64_t features, std::int64_t classes) {
  using namespace torch::nn;
  return Sequential(BatchNorm1d(features), Linear(features, 64), ReLU(), Linear(64, classes));
}

ModelOutput forward(torch::nn::Sequential& net, const Inputs& inputs) {
  ModelOutput output{.logits = net->forward(inputs["features"])};
  output.loss = at::cross_entropy_loss(output.logits, inputs["labels"]);
  return output;
}

void run(const Arguments& training_args, const ScriptArguments& script) {
  set_seed(training_args.seed);
  Dataset rows = load_dataset("csv", {.data_files = script.data}).only();
  rows = rows.filter([](const Row& row) {
    return std::ranges::none_of(row, [](const auto& cell) { return cell.second.is_missing(); });
  });
  for (const auto& name : rows.column_names())
    if (name == script.label || rows.feature(name).kind() == Feature::Kind::string)
      rows = rows.class_encode_column(name);
  const auto parts = encoded(rows, script.label).train_test_split({.test_size = 0.2, .seed = 42});
  const auto features = static_cast<std::int64_t>(parts["train"][0]["features"].numbers().size());
  const auto classes = static_cast<std::int64_t>(rows.feature(script.label).names().size());

  Trainer trainer({.model = trainable(make_net(features, classes), forward),
                   .args = training_args,
                   .train_dataset = parts["train"],
                   .eval_dataset = parts["test"],
                   .compute_metrics = combine({Accuracy(), F1({.average = "macro"})})});
  trainer.train();
  const auto metrics = trainer.evaluate();
  trainer.save_model();
  if (trainer.is_world_process_zero())
    std::cout << rows.size() << " rows, " << features << " features, " << classes << " classes\n"
              << "accuracy " << rounded(metrics["eval_accuracy"]) << ", F1 "
              << rounded(metrics["eval_f1"]) << "\n";
  trainer.end();
}
}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] {
    const auto [args, script] = accelerate::parse_args<Arguments, ScriptArguments>(argc, argv);
    run(args, script);
  });
}
