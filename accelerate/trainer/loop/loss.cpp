#include "accelerate/trainer/loop/loss.h"

#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/models/label_smoother.h"
#include "accelerate/models/pre_trained_model.h"
#include "accelerate/trainer/data/label_columns.h"
#include "accelerate/trainer/prepared_model.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kIgnored = -100;

// Whether the model's loss is a mean over rows because it predicts a number.
bool regresses(const TrainableModel& model) {
  const auto* pretrained = model.pretrained();
  return pretrained != nullptr && model.name().ends_with("ForSequenceClassification") &&
         pretrained->config().num_labels() == 1;
}

// Whether the model divides its loss by num_items. A mean over rows does not depend on it.
bool divides_by_items(const TrainableModel& model) {
  const auto names = model.input_names();
  if (std::ranges::find(names, "num_items_in_batch") == names.end()) return false;
  return !regresses(model);
}

// Returns how many rows have an answer within the text, which the loss of answers is a mean over.
// Where beginnings and ends differ in that, returns the mean of both numbers.
double answers_inside(const Inputs& batch) {
  const std::int64_t tokens = batch["input_ids"].size(1);
  const auto inside = [&](const char* name) { return batch[name].lt(tokens).sum().item<double>(); };
  return (inside("start_positions") + inside("end_positions")) / 2;
}

bool is_causal(const std::string& name) {
  return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel");
}

}  // namespace

BatchLoss::BatchLoss(const TrainerOptions& options, const TrainingArguments& args,
                     const TrainableModel& model, int num_processes)
    : compute_loss_func_(options.compute_loss_func),
      label_smoothing_(args.label_smoothing_factor),
      averages_over_ranks_(args.average_tokens_across_devices),
      takes_num_items_(divides_by_items(model)),
      is_over_labels_(options.compute_loss_func || args.label_smoothing_factor > 0 ||
                      takes_num_items_ || (model.pretrained() != nullptr && !regresses(model))),
      answers_questions_(model.pretrained() != nullptr && !compute_loss_func_ &&
                         model.name().ends_with("ForQuestionAnswering")),
      shifts_labels_(is_causal(model.name())),
      num_processes_(num_processes),
      model_name_(model.name()),
      how_to_name_labels_(how_to_name_labels(options.train_dataset, args, model)) {}

bool BatchLoss::counts_items(const Inputs& batch) const {
  const at::Tensor labels = batch.get("labels");
  if (!labels.defined()) return false;
  return compute_loss_func_ || (takes_num_items_ && !labels.is_floating_point());
}

std::int64_t BatchLoss::items(const Inputs& batch) const {
  at::Tensor labels = batch.contains("shift_labels") ? batch["shift_labels"] : batch["labels"];
  const bool shifts = shifts_labels_ && !batch.contains("shift_labels") && labels.dim() > 0;
  if (shifts) labels = labels.narrow(-1, 1, labels.size(-1) - 1);
  return labels.ne(kIgnored).sum().item<std::int64_t>();
}

double BatchLoss::weight(const Inputs& batch, std::int64_t samples) const {
  const at::Tensor labels = batch.get("labels");
  if (answers_questions_ && batch.contains("start_positions")) return answers_inside(batch);
  const bool are_classes = labels.defined() && !labels.is_floating_point();
  return static_cast<double>(is_over_labels_ && are_classes ? items(batch) : samples);
}

LossOutput BatchLoss::operator()(PreparedModel& model, Inputs batch,
                                 const at::Tensor& num_items) const {
  const at::Tensor labels = batch.get("labels");
  const bool own_loss = !compute_loss_func_ && !(label_smoothing_ > 0 && labels.defined());
  if (!own_loss) batch.erase("labels");
  if (own_loss && takes_num_items_ && num_items.defined())
    batch.set("num_items_in_batch", num_items);
  LossOutput result{.loss = {}, .outputs = model(batch)};
  result.loss = loss_of(result.outputs, own_loss ? at::Tensor() : labels, num_items, batch);
  // The loss is a share of a sum over the ranks. Gradients are averaged over the ranks, which this
  // undoes.
  if (averages_over_ranks_ && num_items.defined() && num_processes_ > 1)
    result.loss = result.loss * num_processes_;
  return result;
}

at::Tensor BatchLoss::loss_of(const ModelOutput& outputs, const at::Tensor& labels,
                              const at::Tensor& num_items, const Inputs& batch) const {
  at::Tensor loss;
  if (compute_loss_func_) {
    loss = compute_loss_func_(outputs, labels, num_items);
  } else if (labels.defined()) {
    loss = LabelSmoother{.epsilon = label_smoothing_}(outputs, labels, shifts_labels_, num_items);
  } else {
    loss = outputs.loss;
  }
  if (!loss.defined() || loss.numel() != 1)
    throw UsageError(model_name_ + " returned no loss from " + join(batch.keys(), ", ") +
                     ": give it labels, or compute_loss_func. " + how_to_name_labels_);
  return loss.reshape({});
}

}  // namespace accelerate::detail
