#include "accelerate/transformers/trainer/loop/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/transformers/trainer/callbacks/speed.h"
#include "accelerate/transformers/trainer/data/label_columns.h"
#include "accelerate/transformers/trainer/loop/collected.h"
#include "accelerate/transformers/trainer/loop/evaluation_steps.h"
#include "accelerate/transformers/trainer/loop/loss.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

// Returns the outputs that are predictions, in the order of ModelOutput.
std::vector<at::Tensor> predictions_of(const ModelOutput& output) {
  std::vector<at::Tensor> found;
  for (const at::Tensor* tensor : {&output.logits, &output.last_hidden_state, &output.pooler_output,
                                   &output.start_logits, &output.end_logits})
    if (tensor->defined()) found.push_back(tensor->detach());
  return found;
}

// What one batch gave on this rank.
struct Judged {
  double loss = 0;
  std::vector<LossPart> parts;  // Empty without labels.
  std::vector<at::Tensor> outputs, labels;
  [[nodiscard]] bool has_loss() const { return !parts.empty(); }
};

// Sums over batches, for each part of the loss: its means times their weights, and the weights; of
// all means, then of finite ones.
class LossSums {
 public:
  // A batch in which nothing counts has a loss of 0 / 0, which is no part of the mean.
  void add(const std::vector<LossPart>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto [mean, weight] = parts[i];
      if (weight == 0) continue;
      add(4 * i, mean * weight, weight);
      if (std::isfinite(mean)) add(4 * i + 2, mean * weight, weight);
    }
  }
  [[nodiscard]] const std::vector<double>& numbers() const { return numbers_; }

  // Returns the average of the parts that something counts in; NaN if there are none. `numbers`:
  // numbers() of all ranks. `filters`: without losses that are not finite, if any is finite.
  static double mean(std::span<const double> numbers, bool filters) {
    double sum = 0, parts = 0;
    for (; numbers.size() >= 4; numbers = numbers.subspan(4)) {
      if (numbers[1] == 0) continue;
      sum += filters && numbers[3] > 0 ? numbers[2] / numbers[3] : numbers[0] / numbers[1];
      ++parts;
    }
    return sum / parts;
  }

 private:
  void add(std::size_t place, double loss, double weight) {
    numbers_[place] += loss;
    numbers_[place + 1] += weight;
  }

  std::vector<double> numbers_ = std::vector<double>(4 * BatchLoss::kMostParts);
};

class EvaluationRun {
 public:
  EvaluationRun(TrainerCore& core, const EvaluationOptions& options)
      : core_(core),
        options_(options),
        // Each rank judges its batches alone: their losses are no shares of a step's.
        batch_loss_(core.options, core.recipe, /*num_processes=*/1),
        label_names_(label_names(core.recipe)),
        collected_(core.args) {
    if (!core.args.prediction_loss_only) metric_ = core.options.compute_metrics.metric();
    if (metric_) metric_->reset();
  }

  void add(const EvaluationStep& step);
  EvaluationResult result();
  [[nodiscard]] EvaluationTrial attempt(const EvaluationStep& step, bool calls_function);

 private:
  [[nodiscard]] Judged judge(const EvaluationStep& step);
  [[nodiscard]] at::Tensor num_items(const Inputs& batch) const;
  [[nodiscard]] bool gathers() const;
  void judge_stream(const EvaluationStep& step, const Judged& judged);
  [[nodiscard]] GatheredBatch own_batch(const EvaluationStep& step, const Judged& judged) const;
  void gather(const EvaluationStep& step, const Judged& judged);
  [[nodiscard]] LogValues with_prefix(const LogValues& found) const;

  TrainerCore& core_;
  const EvaluationOptions& options_;
  BatchLoss batch_loss_;
  std::vector<std::string> label_names_;
  std::shared_ptr<Metric> metric_;
  CollectedPredictions collected_;
  LogValues batch_metrics_;
  LossSums losses_;
  double samples_ = 0, labelled_ = 0;
  std::int64_t steps_ = 0;
};

Judged EvaluationRun::judge(const EvaluationStep& step) {
  const Inputs& batch = step.batch;
  const bool has_labels = std::ranges::all_of(
      label_names_, [&](const std::string& name) { return batch.contains(name); });
  auto& model = core_.trained.prepared_model();
  Judged judged;
  if (has_labels) {
    for (const auto& name : label_names_) judged.labels.push_back(batch[name]);
    const LossOutput computed = batch_loss_(model, batch, num_items(batch));
    judged.loss = computed.loss.item<double>();
    judged.parts = batch_loss_.parts(computed, batch, step.samples);
    judged.outputs = predictions_of(computed.outputs);
  } else {
    judged.outputs = predictions_of(model(batch));
  }
  const auto& preprocess = core_.options.preprocess_logits_for_metrics;
  if (preprocess && !judged.outputs.empty())
    judged.outputs.front() =
        preprocess(judged.outputs.front(), has_labels ? judged.labels.front() : at::Tensor());
  return judged;
}

// Returns the number of labels of this rank's batch; undefined where nothing is divided by it.
at::Tensor EvaluationRun::num_items(const Inputs& batch) const {
  if (!batch_loss_.counts_items(batch)) return {};
  return at::scalar_tensor(static_cast<double>(batch_loss_.items(batch)),
                           at::TensorOptions(at::kFloat).device(core_.accelerator.device()));
}

// A metric that streams does not need the predictions of other ranks.
bool EvaluationRun::gathers() const {
  if (options_.keeps_predictions) return true;
  const auto& compute = core_.options.compute_metrics;
  return !core_.args.prediction_loss_only && (compute.function() || compute.batch_function());
}

void EvaluationRun::add(const EvaluationStep& step) {
  const Judged judged = judge(step);
  ++steps_;
  samples_ += static_cast<double>(step.samples);
  if (judged.has_loss() && step.samples > 0) {
    labelled_ += static_cast<double>(step.samples);
    losses_.add(judged.parts);
  }
  judge_stream(step, judged);
  if (gathers()) gather(step, judged);
}

void EvaluationRun::judge_stream(const EvaluationStep& step, const Judged& judged) {
  if (!metric_ || judged.labels.empty() || judged.outputs.empty() || step.samples == 0) return;
  metric_->update({.predictions = judged.outputs.front(), .labels = judged.labels.front()});
}

GatheredBatch EvaluationRun::own_batch(const EvaluationStep& step, const Judged& judged) const {
  GatheredBatch mine{.outputs = judged.outputs, .labels = judged.labels};
  if (collected_.wants_inputs()) mine.inputs = step.batch.get("input_ids");
  if (collected_.wants_losses() && judged.has_loss())
    mine.losses = at::full({step.samples}, judged.loss,
                           at::TensorOptions(at::kFloat).device(core_.accelerator.device()));
  return step.samples == 0 ? without_rows(std::move(mine)) : mine;
}

void EvaluationRun::gather(const EvaluationStep& step, const Judged& judged) {
  GatheredBatch all = gather_batch(core_.accelerator, own_batch(step, judged), step.is_full);
  const auto& by_batch = core_.options.compute_metrics.batch_function();
  if (by_batch && !options_.keeps_predictions) {
    batch_metrics_ = by_batch(prediction_of(all), step.is_last);
  } else {
    collected_.add(std::move(all));
  }
}

EvaluationResult EvaluationRun::result() {
  std::vector<double> mine{samples_, labelled_};
  mine.insert(mine.end(), losses_.numbers().begin(), losses_.numbers().end());
  const auto all = sum_of_ranks(core_.accelerator, mine);
  EvaluationResult result{.num_samples = static_cast<std::int64_t>(all[0]),
                          .num_steps = steps_,
                          .has_labels = all[1] > 0};
  LogValues found = std::move(batch_metrics_);
  if (gathers()) result.prediction = collected_.take();
  const bool has_labels = !result.prediction.labels.empty() || !result.prediction.batches.empty();
  const auto& compute = core_.options.compute_metrics;
  if (metric_ && result.has_labels) {
    found = LogValues(metric_->compute(core_.accelerator.communicator()));
  } else if (compute.function() && !core_.args.prediction_loss_only && has_labels) {
    found = compute.function()(result.prediction);
  }
  if (result.has_labels)
    found.set("loss", LossSums::mean(std::span(all).subspan(2), core_.args.logging_nan_inf_filter));
  result.metrics = with_prefix(found);
  return result;
}

LogValues EvaluationRun::with_prefix(const LogValues& found) const {
  LogValues named;
  for (const auto& [name, value] : found) {
    const bool is_prefixed = name.starts_with(options_.prefix + "_");
    named.set(is_prefixed ? name : options_.prefix + "_" + name, value);
  }
  return named;
}

// A function may refuse so few rows, and judge the whole set.
EvaluationTrial EvaluationRun::attempt(const EvaluationStep& step, bool calls_function) {
  const Judged judged = judge(step);
  judge_stream(step, judged);
  if (metric_) metric_->reset();
  EvaluationTrial trial{.has_labels = judged.has_loss()};
  const auto& function = core_.options.compute_metrics.function();
  if (!calls_function || !function || !trial.has_labels || step.samples == 0) return trial;
  collected_.add(own_batch(step, judged));
  try {
    trial.metrics = with_prefix(function(collected_.take()));
  } catch (const std::exception&) {
  }
  return trial;
}

// Returns a recipe whose collator draws from a generator of its own.
LoaderRecipe without_shared_draws(LoaderRecipe recipe) {
  if (auto* masking = recipe.data_collator.target<DataCollatorForLanguageModeling>())
    masking->generator = std::make_shared<SharedGenerator>();
  return recipe;
}

}  // namespace

EvaluationResult run_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                                const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const at::NoGradGuard no_grad;
  auto& model = core.trained.prepared_model();
  core.trained.set_training_mode(false);
  model.train(false);
  const std::optional<StateDict> random =
      options.stops_on_signal ? std::optional(rng_state()) : std::nullopt;
  EvaluationSteps steps(core.accelerator, core.recipe, dataset, options.stops_on_signal);
  EvaluationRun run(core, options);
  while (const auto step = steps.next()) {
    run.add(*step);
    core.record.call(&TrainerCallback::on_prediction_step, steps.size());
  }
  if (steps.is_stopped()) {
    set_rng_state(*random);
    return {.is_broken_off = true};
  }
  EvaluationResult result = run.result();
  if (result.num_samples == 0)
    throw ConfigError("the dataset of the " + options.description +
                      " is empty: give one with rows");
  add_speed(result.metrics, options.prefix, seconds_since(start),
            {.samples = static_cast<double>(result.num_samples),
             .steps = static_cast<double>(result.num_steps)});
  return result;
}

LogValues evaluate(TrainerCore& core, const EvalDatasets& sets, const std::string& prefix,
                   EvaluationProgress* progress) {
  const EvalDatasets& chosen = sets.empty() ? core.options.eval_dataset : sets;
  if (chosen.empty())
    throw ConfigError(
        "evaluate() needs a dataset: give the Trainer eval_dataset, or evaluate() one");
  EvaluationProgress whole;
  EvaluationProgress& done = progress == nullptr ? whole : *progress;
  std::int64_t number = 0;
  for (const auto& [name, dataset] : chosen.sets()) {
    if (number++ < done.sets) continue;
    const std::string of_set = name.empty() ? prefix : prefix + "_" + name;
    const auto half = half_weights(core);
    auto result =
        run_evaluation(core, dataset, {.prefix = of_set, .stops_on_signal = progress != nullptr});
    done.is_broken_off = result.is_broken_off;
    if (done.is_broken_off) break;
    if (!result.has_labels) {
      const std::string where = sets.empty() ? name_of_eval_set(name) : "the evaluation set";
      trainer_logger().warning_once(lack_of_labels(core, dataset, where));
    }
    const LogValues metrics = core.record.log(std::move(result.metrics));
    core.record.call(&TrainerCallback::on_evaluate, metrics);
    for (const auto& [metric, value] : metrics) done.metrics.set(metric, value);
    ++done.sets;
  }
  return done.metrics;
}

std::string name_of_eval_set(const std::string& name) {
  return name.empty() ? "eval_dataset" : "eval_dataset '" + name + "'";
}

std::string lack_of_labels(const TrainerCore& core, const TrainerDataset& dataset,
                           const std::string& where) {
  return where + " has no '" + join(label_names(core.recipe), "' and '") +
         "', so that its evaluation gives neither a loss nor metrics. " +
         how_to_name_labels(dataset, core.recipe);
}

std::unique_ptr<HalfWeights> half_weights(TrainerCore& core) {
  if (core.record.is_training) return nullptr;
  core.trained.check_half_weights();
  return std::make_unique<HalfWeights>(core.args, core.trained.model());
}

EvaluationTrial try_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                               bool calls_function) {
  const at::NoGradGuard no_grad;
  core.trained.prepared_model().train(false);
  const StateDict before = rng_state();
  EvaluationTrial trial;
  {
    const EvaluationOptions options;
    const LoaderRecipe recipe = without_shared_draws(core.recipe);
    EvaluationSteps steps(core.accelerator, recipe, dataset);
    const auto first = steps.next();
    if (!first) throw ConfigError("it is empty: give a dataset with one row or more");
    trial = EvaluationRun(core, options).attempt(*first, calls_function);
  }
  set_rng_state(before);
  return trial;
}

}  // namespace accelerate::detail
