#include "accelerate/transformers/trainer/loop/loss.h"

#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/models/label_smoother.h"
#include "accelerate/transformers/models/losses.h"
#include "accelerate/transformers/models/pre_trained_model.h"
#include "accelerate/transformers/trainer/data/label_columns.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kIgnored = -100;

bool takes(const TrainableModel& model, const char* input) {
  const auto names = model.input_names();
  return std::ranges::find(names, input) != names.end();
}

bool is_pretrained_for(const TrainableModel& model, const char* task) {
  return model.pretrained() != nullptr && model.name().ends_with(task);
}

// Returns the loss of places in a text, which is a mean over the places inside.
LossPart part_of_places(const at::Tensor& logits, const at::Tensor& positions) {
  return {.mean = position_loss(logits, positions).item<double>(),
          .weight = positions.lt(logits.size(1)).sum().item<double>()};
}

bool is_causal(const std::string& name) {
  return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel");
}

}  // namespace

BatchLoss::BatchLoss(const TrainerOptions& options, const LoaderRecipe& recipe, int num_processes)
    : compute_loss_func_(options.compute_loss_func),
      label_smoothing_(recipe.args.label_smoothing_factor),
      averages_over_ranks_(recipe.args.average_tokens_across_devices),
      takes_num_items_(takes(recipe.model, "num_items_in_batch")),
      is_pretrained_(recipe.model.pretrained() != nullptr),
      classifies_rows_(is_pretrained_for(recipe.model, "ForSequenceClassification")),
      answers_questions_(!compute_loss_func_ &&
                         is_pretrained_for(recipe.model, "ForQuestionAnswering")),
      shifts_labels_(is_causal(recipe.model.name())),
      num_processes_(num_processes),
      model_name_(recipe.model.name()),
      how_to_name_labels_(how_to_name_labels(options.train_dataset, recipe)) {
  if (!classifies_rows_) return;
  const PretrainedConfig& config = recipe.model.pretrained()->config();
  problem_ = config.get<std::string>("problem_type", "");
  num_labels_ = config.num_labels();
}

// Whether the model's own loss is one of classes. Otherwise it is a mean over rows: of numbers, or
// of several labels a row, which may be integers too.
bool BatchLoss::is_over_labels(const at::Tensor& labels) const {
  if (labels.is_floating_point()) return false;
  if (!classifies_rows_) return is_pretrained_ || takes_num_items_;
  return classification_problem(problem_, num_labels_, labels) == "single_label_classification";
}

bool BatchLoss::counts_items(const Inputs& batch) const {
  const at::Tensor labels = batch.get("labels");
  if (!labels.defined()) return false;
  return compute_loss_func_ || (takes_num_items_ && is_over_labels(labels));
}

std::int64_t BatchLoss::items(const Inputs& batch) const {
  at::Tensor labels = batch.contains("shift_labels") ? batch["shift_labels"] : batch["labels"];
  const bool shifts = shifts_labels_ && !batch.contains("shift_labels") && labels.dim() > 0;
  if (shifts) labels = labels.narrow(-1, 1, labels.size(-1) - 1);
  return labels.ne(kIgnored).sum().item<std::int64_t>();
}

std::vector<LossPart> BatchLoss::parts(const LossOutput& computed, const Inputs& batch,
                                       std::int64_t samples) const {
  const ModelOutput& outputs = computed.outputs;
  if (!answers_questions_ || !batch.contains("start_positions"))
    return {{.mean = computed.loss.item<double>(), .weight = weight(batch, samples)}};
  return {part_of_places(outputs.start_logits, batch["start_positions"]),
          part_of_places(outputs.end_logits, batch["end_positions"])};
}

double BatchLoss::weight(const Inputs& batch, std::int64_t samples) const {
  const at::Tensor labels = batch.get("labels");
  const bool is_over_items =
      labels.defined() && (compute_loss_func_ || label_smoothing_ > 0 || is_over_labels(labels));
  return static_cast<double>(is_over_items ? items(batch) : samples);
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
