// Trains a classifier of the rows of a CSV file: one column is the answer, all columns of numbers are
// what it is told by. Try it on your own file:
//   build/train --data my.csv --label kind
// Every argument of TrainingArguments is a flag: build/train --help.
#include <accelerate/trainer.h>
#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace accelerate;

struct ScriptArguments {
  std::string data = "flowers.csv";
  std::string label = "kind";
};

template <typename Visit>
void visit_arguments(ScriptArguments& script, Visit&& argument) {
  argument("data", script.data, "The CSV file.");
  argument("label", script.label, "The column that holds the answer: words or numbers.");
}

struct Arguments : TrainingArguments {
  Arguments() {
    output_dir = "run";
    learning_rate = 1e-2;
    per_device_train_batch_size = 16;
    num_train_epochs = 20;
    eval_strategy = "epoch";
    save_strategy = "epoch";
    load_best_model_at_end = true;
    metric_for_best_model = "accuracy";
    save_total_limit = 1;
  }
};

// The rows as the Trainer takes them: "numbers", and "labels" as the number of the answer.
struct Data {
  DatasetDict parts;                 // "train", and "test" with a fifth of the rows.
  std::vector<std::string> classes;  // The answers, in the order of their numbers.
  std::int64_t columns = 0;          // Numbers in a row.
};

Data read_data(const ScriptArguments& script) {
  const Dataset rows =
      load_dataset("csv", {.data_files = script.data}).only().class_encode_column(script.label);
  std::vector<std::string> numbers;
  for (const auto& name : rows.column_names()) {
    const auto kind = rows.feature(name).kind();
    const bool is_number = kind == Feature::Kind::integer || kind == Feature::Kind::floating;
    if (is_number && name != script.label) numbers.push_back(name);
  }
  if (numbers.empty()) throw ConfigError("no column of " + script.data + " holds numbers");
  const auto prepared = rows.map(
      [&](const Row& row) {
        std::vector<double> values;
        for (const auto& name : numbers) values.push_back(row[name].number());
        return Row{{"numbers", std::move(values)}, {"labels", row[script.label].integer()}};
      },
      {.remove_columns = rows.column_names()});
  return {prepared.train_test_split({.test_size = 0.2, .seed = 42}),
          rows.feature(script.label).names(), static_cast<std::int64_t>(numbers.size())};
}

// Columns may have any scale: the first layer brings each to mean 0 and variance 1.
struct Net : torch::nn::Module {
  Net(std::int64_t columns, std::int64_t classes)
      : scale(register_module(
            "scale", torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(columns).affine(false)))),
        in(register_module("in", torch::nn::Linear(columns, 64))),
        out(register_module("out", torch::nn::Linear(64, classes))) {}

  // inputs: "numbers" {n, columns}, "labels" int64 {n} if the loss is wanted.
  ModelOutput forward(const Inputs& inputs) {
    ModelOutput output;
    output.logits = out(torch::relu(in(scale(inputs["numbers"].to(torch::kFloat)))));
    if (inputs.contains("labels"))
      output.loss = torch::cross_entropy_loss(output.logits, inputs["labels"]);
    return output;
  }

  torch::nn::BatchNorm1d scale;
  torch::nn::Linear in, out;
};

void run(const Arguments& training_args, const ScriptArguments& script) {
  set_seed(training_args.seed);
  const Data data = read_data(script);
  Trainer trainer(
      {.model = std::make_shared<Net>(data.columns, static_cast<std::int64_t>(data.classes.size())),
       .args = training_args,
       .train_dataset = data.parts["train"],
       .eval_dataset = data.parts["test"],
       .compute_metrics = std::make_shared<Accuracy>()});
  trainer.train();
  const auto metrics = trainer.evaluate();
  trainer.log_metrics("eval", metrics);
  trainer.save_model();
  trainer.end();
}

}  // namespace

int main(int argc, char** argv) try {
  const auto [training_args, script] =
      accelerate::parse_args<Arguments, ScriptArguments>(argc, argv);
  run(training_args, script);
  return 0;
} catch (const accelerate::HelpRequested& help) {
  std::cout << help.what();
  return 0;
} catch (const std::exception& error) {
  std::cerr << "train: " << accelerate::describe(error) << "\n";
  return 1;
}
