// Trains a classifier of the rows of a CSV file: one column is the answer, all columns of numbers are
// what it is told by. Try it on your own file:
//   build/train --data my.csv --label kind
// Every argument of TrainingArguments is a flag: build/train --help.
#include <accelerate/trainer.h>
#include <torch/torch.h>

#include <cmath>
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
  torch::Tensor mean, deviation;     // Of each column of numbers, in the rows of "train".
};

// Says which cell cannot be trained on: one number that is not finite would make all weights nan.
void check_numbers(const Dataset& rows, const std::vector<std::string>& columns) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    for (const auto& name : columns) {
      const Value& cell = row[name];
      if (!cell.is_missing() && std::isfinite(static_cast<float>(cell.number()))) continue;
      throw DataError("row " + std::to_string(i) + " of the data, counted from 0, has " +
                      (cell.is_missing() ? "no number" : std::to_string(cell.number())) +
                      " in the column '" + name +
                      "'. Allowed are finite numbers: correct the "
                      "row, or leave it out");
    }
  }
}

// Says why rows are too few to learn an answer and to test it.
void check_answers(const Dataset& rows, const ScriptArguments& script) {
  constexpr std::size_t kLeast = 5;  // So that a fifth is a row.
  if (rows.size() < kLeast)
    throw DataError(script.data + " has " + std::to_string(rows.size()) +
                    " rows; needed are 5 or more, a fifth of which tests the training");
  const auto& classes = rows.feature(script.label).names();
  if (classes.size() < 2)
    throw DataError("the column '" + script.label + "' of " + script.data +
                    " has one answer in all rows, '" + classes.front() +
                    "'; a classifier needs two or more. Name another column by --label");
}

// Returns "numbers" of all rows: float64 {rows, columns}.
torch::Tensor table_of(const Dataset& rows) {
  std::vector<torch::Tensor> table;
  for (const Row& row : rows) table.push_back(torch::tensor(row["numbers"].numbers()));
  return torch::stack(table);
}

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
  check_answers(rows, script);
  check_numbers(rows, numbers);
  const auto prepared = rows.map(
      [&](const Row& row) {
        std::vector<double> values;
        for (const auto& name : numbers) values.push_back(row[name].number());
        return Row{{"numbers", std::move(values)}, {"labels", row[script.label].integer()}};
      },
      {.remove_columns = rows.column_names()});
  const auto parts = prepared.train_test_split({.test_size = 0.2, .seed = 42});
  const auto table = table_of(parts["train"]);
  const auto deviation = table.std(0, /*unbiased=*/false);
  return {parts, rows.feature(script.label).names(), table.mean(0).to(torch::kFloat),
          torch::where(deviation > 0, deviation, 1.0).to(torch::kFloat)};
}

// Columns may have any scale: each is brought to mean 0 and variance 1 first.
struct Net : torch::nn::Module {
  explicit Net(const Data& data)
      : mean(register_buffer("mean", data.mean)),
        deviation(register_buffer("deviation", data.deviation)),
        in(register_module("in", torch::nn::Linear(data.mean.size(0), 64))),
        out(register_module(
            "out", torch::nn::Linear(64, static_cast<std::int64_t>(data.classes.size())))) {}

  // inputs: "numbers" {n, columns}, "labels" int64 {n} if the loss is wanted.
  ModelOutput forward(const Inputs& inputs) {
    const auto scaled = (inputs["numbers"].to(torch::kFloat) - mean) / deviation;
    ModelOutput output;
    output.logits = out(torch::relu(in(scaled)));
    if (inputs.contains("labels"))
      output.loss = torch::cross_entropy_loss(output.logits, inputs["labels"]);
    return output;
  }

  torch::Tensor mean, deviation;
  torch::nn::Linear in, out;
};

void run(const Arguments& training_args, const ScriptArguments& script) {
  set_seed(training_args.seed);
  const Data data = read_data(script);
  Trainer trainer({.model = std::make_shared<Net>(data),
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
