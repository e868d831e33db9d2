// Fine-tunes a BERT on sayings of eight topics with the Trainer. originals/trainer_steps.py does
// the same in Python and takes the same flags.
//
//   bench_trainer_steps --model FOLDER --output_dir FOLDER [arguments of a training]
//   bench_trainer_steps --slices 3 …
//
// Reports the losses that were logged and the last evaluation. With --slices it trains in slices,
// so that two programs can train in turns. Rank 0 reports when the warm-up steps are done, and
// waits for a line on standard input before each slice. After a slice it reports the time and the
// tokens.
#include <accelerate/transformers.h>
#include <unistd.h>

#include <ATen/ops/full.h>

#include <array>
#include <exception>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/programs/measure.h"
#include "examples/nlp/sayings.h"

namespace {

using namespace accelerate;

/// The program's own arguments, besides the arguments of a training.
struct ScriptArguments {
  std::string model, data = "/usr/share/games/fortunes";
  std::optional<double> dropout;
  std::int64_t warm_up_steps = 10, slices = 0, slice_steps = 60;
};

template <typename Visit>
void visit_arguments(ScriptArguments& script, Visit&& argument) {
  argument("model", script.model, "Folder of a pretrained BERT.");
  argument("data", script.data, "Folder with a file of sayings for each topic.");
  argument("dropout", script.dropout, "Of hidden states and of attention, instead of the model's.");
  argument("warm_up_steps", script.warm_up_steps, "Steps before the first slice, at least 1.");
  argument("slices", script.slices, "Slices to train, each when a line comes; 0: all at once.");
  argument("slice_steps", script.slice_steps, "Steps of a slice.");
}

/// Token counts of batches, in their order: with padding, and without.
using TokenCounts = std::vector<std::array<std::int64_t, 2>>;

/// Returns a collator that pads rows and counts their tokens into `counts`.
DataCollator counting_collator(const PreTrainedTokenizer& tokenizer,
                               std::shared_ptr<TokenCounts> counts) {
  return [pad = DataCollatorWithPadding{.tokenizer = tokenizer},
          counts = std::move(counts)](std::vector<Row> rows) {
    Inputs batch = pad(std::move(rows));
    const at::Tensor mask = batch["attention_mask"];
    counts->push_back({mask.numel(), mask.sum().item<std::int64_t>()});
    return batch;
  };
}

/// Lets a training go on slice by slice. Every rank has one; the one on rank 0 reads and reports.
class Turns final : public TrainerCallback {
 public:
  Turns(const ScriptArguments& script, std::shared_ptr<TokenCounts> counts, nlohmann::json rows)
      : script_(script), counts_(std::move(counts)), rows_(std::move(rows)) {}

  [[nodiscard]] std::string name() const override { return "Turns"; }

  void on_step_end(TrainerEvent& event) override {
    const auto step = event.state.global_step - script_.warm_up_steps;
    if (step < 0 || step % script_.slice_steps != 0) return;
    const nlohmann::json values = step == 0 ? ready(event) : slice(event.state.global_step);
    if (event.accelerator.is_main_process()) bench::report(values);
    if (event.state.global_step < event.state.max_steps) await_turn(event.accelerator);
  }

 private:
  nlohmann::json ready(const TrainerEvent& event) const {
    const auto mine = at::full({1}, static_cast<std::int64_t>(::getpid()), at::kLong);
    const at::Tensor pids = event.accelerator.gather(mine);
    const auto* first = pids.const_data_ptr<std::int64_t>();
    return {{"pids", std::vector(first, first + pids.numel())},
            {"threads", at::get_num_threads()},
            {"rows", rows_}};
  }

  nlohmann::json slice(std::int64_t steps_done) const {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started_;
    std::int64_t padded = 0, real = 0;
    for (auto i = steps_done - script_.slice_steps; i < steps_done; ++i) {
      padded += counts_->at(static_cast<std::size_t>(i))[0];
      real += counts_->at(static_cast<std::size_t>(i))[1];
    }
    return {{"slice_seconds", taken.count()}, {"padded_tokens", padded}, {"real_tokens", real}};
  }

  void await_turn(const Accelerator& accelerator) {
    std::string line;
    if (accelerator.is_main_process() && !std::getline(std::cin, line))
      throw std::runtime_error("standard input ended before all slices were trained");
    accelerator.wait_for_everyone();
    started_ = std::chrono::steady_clock::now();
  }

  ScriptArguments script_;
  std::shared_ptr<TokenCounts> counts_;
  nlohmann::json rows_;
  std::chrono::steady_clock::time_point started_;
};

/// Throws std::invalid_argument for missing or senseless arguments.
void check(const ScriptArguments& script) {
  if (script.model.empty()) throw std::invalid_argument("--model FOLDER is missing");
  if (script.slices < 0 || script.slice_steps < 1 || script.warm_up_steps < 1)
    throw std::invalid_argument("--slices takes 0 or more, other counts of steps take 1 or more");
}

std::shared_ptr<PreTrainedModel> open_model(const ScriptArguments& script) {
  PretrainedConfig config = PretrainedConfig::from_pretrained(script.model);
  if (script.dropout) {
    config.set("hidden_dropout_prob", *script.dropout);
    config.set("attention_probs_dropout_prob", *script.dropout);
  }
  return AutoModelForSequenceClassification::from_pretrained(script.model,
                                                             {.config = config, .num_labels = 8});
}

/// Returns every 1009th row, round and round: the order is sequential, and topics follow one
/// another.
Dataset mixed(const Dataset& dataset) {
  const std::uint64_t rows = dataset.size(), stride = std::gcd(rows, 1009U) == 1 ? 1009 : 1;
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < rows; ++i) order.push_back(i * stride % rows);
  return dataset.select(order);
}

/// Returns what a training without slices reports.
nlohmann::json outcome(const TrainerState& state, nlohmann::json rows) {
  nlohmann::json values{{"losses", nlohmann::json::array()}, {"rows", std::move(rows)}};
  for (const LogValues& logs : state.log_history) {
    if (const double* loss = logs.find("loss")) values["losses"].push_back(*loss);
    for (const char* name : {"eval_loss", "eval_accuracy"})
      if (const double* value = logs.find(name)) values[name] = *value;
  }
  return values;
}

void run(TrainingArguments training_args, const ScriptArguments& script) {
  check(script);
  if (script.slices > 0)
    training_args.max_steps = script.warm_up_steps + script.slices * script.slice_steps;
  set_seed(training_args.seed);  // For the new head.
  const auto tokenizer = AutoTokenizer::from_pretrained(script.model);
  const auto model = open_model(script);
  const auto dataset = sayings::load(script.data, tokenizer);
  const nlohmann::json rows{dataset["train"].size(), dataset["test"].size()};
  const auto counts = std::make_shared<TokenCounts>();

  Trainer trainer({.model = model,
                   .args = training_args,
                   .train_dataset = mixed(dataset["train"]),
                   .eval_dataset = dataset["test"],
                   .processing_class = tokenizer,
                   .data_collator = counting_collator(tokenizer, counts),
                   .compute_metrics = std::make_shared<Accuracy>()});
  for (const char* printing : {"PrinterCallback", "ProgressCallback"})
    trainer.remove_callback(printing);
  if (script.slices > 0) trainer.add_callback(std::make_shared<Turns>(script, counts, rows));
  trainer.train();
  if (script.slices == 0 && trainer.is_world_process_zero())
    bench::report(outcome(trainer.state(), rows));
  trainer.end();
}

}  // namespace

int main(int argc, char** argv) try {
  const auto [training_args, script] =
      accelerate::parse_args<accelerate::TrainingArguments, ScriptArguments>(argc, argv);
  run(training_args, script);
  return 0;
} catch (const accelerate::HelpRequested& help) {
  std::cout << help.what();
  return 0;
} catch (const std::exception& error) {
  std::cerr << argv[0] << ": " << error.what() << "\n";
  return 1;
}
