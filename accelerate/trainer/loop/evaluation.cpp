#include "accelerate/trainer/loop/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/trainer/loop/collected.h"
#include "accelerate/trainer/loop/loss.h"
#include "accelerate/trainer/loop/speed.h"

namespace accelerate::detail {
namespace {

std::int64_t rows_of(const Inputs& batch) {
  for (const auto& [name, tensor] : batch)
    if (tensor.defined() && tensor.dim() > 0) return tensor.size(0);
  return 0;
}

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
  bool has_loss = false;
  std::vector<at::Tensor> outputs, labels;
};

class EvaluationRun {
 public:
  EvaluationRun(TrainerCore& core, const EvaluationOptions& options)
      : core_(core),
        options_(options),
        batch_loss_(core.options, core.args, core.model, core.accelerator.num_processes()),
        label_names_(label_names(core.args, core.model)),
        collected_(core.args) {
    if (!core.args.prediction_loss_only) metric_ = core.options.compute_metrics.metric();
    if (metric_) metric_->reset();
  }

  void add(const Inputs& batch, bool is_last);
  EvaluationResult result();

 private:
  [[nodiscard]] Judged judge(const Inputs& batch);
  [[nodiscard]] at::Tensor num_items(const Inputs& batch);
  [[nodiscard]] bool gathers() const;
  void gather(const Inputs& batch, const Judged& judged, bool is_last);
  void add_loss(const Judged& judged, std::int64_t counted);

  TrainerCore& core_;
  const EvaluationOptions& options_;
  BatchLoss batch_loss_;
  std::vector<std::string> label_names_;
  std::shared_ptr<Metric> metric_;
  CollectedPredictions collected_;
  LogValues batch_metrics_;
  double loss_ = 0, loss_samples_ = 0;     // Of finite losses.
  double all_loss_ = 0, all_samples_ = 0;  // Of all losses.
  double samples_ = 0;
};

Judged EvaluationRun::judge(const Inputs& batch) {
  const bool has_labels = std::ranges::all_of(
      label_names_, [&](const std::string& name) { return batch.contains(name); });
  auto& model = core_.prepared_model();
  Judged judged;
  if (!has_labels) {
    judged.outputs = predictions_of(model(batch));
    return judged;
  }
  for (const auto& name : label_names_) judged.labels.push_back(batch[name]);
  auto [loss, outputs] = batch_loss_(model, batch, num_items(batch));
  judged.loss = loss.item<double>();
  judged.has_loss = true;
  judged.outputs = predictions_of(outputs);
  return judged;
}

// Returns the number of labels, summed over the ranks if the arguments ask for it. Undefined if the
// ranks' batches differ in size, or some rank has none.
at::Tensor EvaluationRun::num_items(const Inputs& batch) {
  const LoaderProgress* progress = core_.accelerator.gradient_state()->progress();
  const bool uneven = progress != nullptr && progress->step_ranks > 0;
  if (uneven || !batch_loss_.counts_items(batch)) return {};
  auto items = static_cast<double>(batch_loss_.items(batch));
  if (core_.args.average_tokens_across_devices) items = core_.sum({items}).front();
  return at::scalar_tensor(items, at::TensorOptions(at::kFloat).device(core_.accelerator.device()));
}

// A metric that streams does not need the predictions of other ranks.
bool EvaluationRun::gathers() const {
  if (options_.keeps_predictions) return true;
  const auto& compute = core_.options.compute_metrics;
  return !core_.args.prediction_loss_only && (compute.function() || compute.batch_function());
}

void EvaluationRun::add_loss(const Judged& judged, std::int64_t counted) {
  if (!judged.has_loss) return;
  const auto weight = static_cast<double>(counted);
  all_loss_ += judged.loss * weight;
  all_samples_ += weight;
  if (!std::isfinite(judged.loss)) return;
  loss_ += judged.loss * weight;
  loss_samples_ += weight;
}

void EvaluationRun::add(const Inputs& batch, bool is_last) {
  const std::int64_t rows = rows_of(batch), counted = counted_rows(core_.accelerator, rows);
  const Judged judged = judge(batch);
  samples_ += static_cast<double>(counted);
  add_loss(judged, counted);
  if (metric_ && !judged.labels.empty() && !judged.outputs.empty() && counted > 0) {
    at::Tensor predictions = judged.outputs.front(), labels = judged.labels.front();
    if (core_.options.preprocess_logits_for_metrics)
      predictions = core_.options.preprocess_logits_for_metrics(predictions, labels);
    metric_->update(
        {.predictions = predictions.narrow(0, 0, counted), .labels = labels.narrow(0, 0, counted)});
  }
  if (gathers()) gather(batch, judged, is_last);
}

// Pads the rows to one length on all ranks, then gathers each sample once.
void EvaluationRun::gather(const Inputs& batch, const Judged& judged, bool is_last) {
  const auto all_ranks = [&](at::Tensor tensor) {
    if (tensor.dim() > 1)
      tensor = core_.accelerator.pad_across_processes(tensor, {.dim = 1, .pad_index = -100});
    return tensor;
  };
  GatheredBatch gathered;
  for (const at::Tensor& label : judged.labels) gathered.labels.push_back(all_ranks(label));
  for (std::size_t i = 0; i < judged.outputs.size(); ++i) {
    at::Tensor logits = all_ranks(judged.outputs[i]);
    if (i == 0 && core_.options.preprocess_logits_for_metrics)
      logits = core_.options.preprocess_logits_for_metrics(
          logits, gathered.labels.empty() ? at::Tensor() : gathered.labels.front());
    gathered.outputs.push_back(core_.accelerator.gather_for_metrics(logits));
  }
  for (at::Tensor& label : gathered.labels) label = core_.accelerator.gather_for_metrics(label);
  if (collected_.wants_inputs() && batch.contains("input_ids"))
    gathered.inputs = core_.accelerator.gather_for_metrics(all_ranks(batch["input_ids"]));
  if (collected_.wants_losses() && judged.has_loss)
    gathered.losses = core_.accelerator.gather_for_metrics(
        at::full({rows_of(batch)}, judged.loss,
                 at::TensorOptions(at::kFloat).device(core_.accelerator.device())));
  const auto& by_batch = core_.options.compute_metrics.batch_function();
  if (by_batch && !options_.keeps_predictions) {
    batch_metrics_ = by_batch(prediction_of(gathered), is_last);
  } else {
    collected_.add(std::move(gathered));
  }
}

EvaluationResult EvaluationRun::result() {
  const auto all = core_.sum({loss_, loss_samples_, all_loss_, all_samples_, samples_});
  const bool filters = core_.args.logging_nan_inf_filter && all[1] > 0;
  EvaluationResult result{.num_samples = static_cast<std::int64_t>(all[4])};
  LogValues found = std::move(batch_metrics_);
  if (gathers()) result.prediction = collected_.take();
  const bool has_labels = !result.prediction.labels.empty() || !result.prediction.batches.empty();
  const auto& compute = core_.options.compute_metrics;
  if (metric_ && all[3] > 0) {
    found = LogValues(metric_->compute(core_.accelerator.communicator()));
  } else if (compute.function() && !core_.args.prediction_loss_only && has_labels) {
    found = compute.function()(result.prediction);
  }
  if (all[3] > 0) found.set("loss", filters ? all[0] / all[1] : all[2] / all[3]);
  for (const auto& [name, value] : found) {
    const bool is_prefixed = name.starts_with(options_.prefix + "_");
    result.metrics.set(is_prefixed ? name : options_.prefix + "_" + name, value);
  }
  return result;
}

}  // namespace

std::int64_t counted_rows(const Accelerator& accelerator, std::int64_t rows) {
  const LoaderProgress* progress = accelerator.gradient_state()->progress();
  if (progress == nullptr || progress->step_samples < 0) return rows;
  const std::int64_t before = accelerator.process_index() * rows;
  return std::clamp<std::int64_t>(progress->step_samples - before, 0, rows);
}

EvaluationResult run_evaluation(TrainerCore& core, const TrainerDataset& dataset,
                                const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const at::NoGradGuard no_grad;
  auto& model = core.prepared_model();
  core.set_training_mode(false);
  model.train(false);
  auto given = core.recipe().eval_loader(dataset);
  auto loader = core.prepare(given);
  std::optional<std::size_t> batches;
  if (dataset.size()) batches = loader.size();
  EvaluationRun run(core, options);
  for (const auto& batch : loader) {
    run.add(batch, core.accelerator.gradient_state()->end_of_dataloader());
    core.call(&TrainerCallback::on_prediction_step, batches);
  }
  EvaluationResult result = run.result();
  if (result.num_samples == 0)
    throw ConfigError("the dataset of the " + options.description +
                      " is empty: give one with rows");
  const auto samples = static_cast<double>(result.num_samples);
  const auto step_samples =
      static_cast<double>(core.args.per_device_eval_batch_size * core.accelerator.num_processes());
  add_speed(result.metrics, options.prefix, seconds_since(start),
            {.samples = samples, .steps = std::ceil(samples / step_samples)});
  return result;
}

}  // namespace accelerate::detail
