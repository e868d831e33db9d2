// The parts that a Trainer is made of. See docs/trainer.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"
#include "accelerate/transformers/trainer/data/trainer_dataset.h"
#include "accelerate/transformers/trainer/metrics/metric.h"
#include "accelerate/transformers/trainer/trainable_model.h"

namespace torch::optim {
class Optimizer;
}

namespace accelerate {
class LRScheduler;

/// What an evaluation found for all samples: each sample once, in the order of the dataset. The
/// tensors are on the CPU, but for a BatchFunction on the model's device.
struct EvalPrediction {
  at::Tensor predictions;             ///< {N, …}: the logits, or what the model returns first.
  at::Tensor label_ids;               ///< {N, …}; undefined without labels.
  std::vector<at::Tensor> outputs{};  ///< All that it returned: start and end logits, say.
  std::vector<at::Tensor> labels{};   ///< One tensor for each of label_names.
  at::Tensor inputs{};                ///< With include_for_metrics "inputs": input_ids.
  at::Tensor losses{};                ///< With include_for_metrics "loss": {N}.
  /// With eval_do_concat_batches = false: one entry for each batch; the fields above are empty
  /// then.
  std::vector<EvalPrediction> batches{};
};

/// How predictions are judged. Either a metric that streams, whose memory does not grow with the
/// dataset; combine() makes one metric of several. Or a function of one batch. Or a function of all
/// predictions, whose memory train() predicts before the first step.
class ComputeMetrics {
 public:
  using Function = std::function<LogValues(const EvalPrediction& prediction)>;
  /// With batch_eval_metrics: called with each batch. `compute_result` is true for the last batch;
  /// what is returned then is the result.
  using BatchFunction =
      std::function<LogValues(const EvalPrediction& prediction, bool compute_result)>;

  ComputeMetrics() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.compute_metrics = compute_metrics` is the point.
  template <typename M>
    requires std::is_base_of_v<Metric, M>
  ComputeMetrics(std::shared_ptr<M> metric) : metric_(std::move(metric)) {}
  template <typename M>
    requires std::is_base_of_v<Metric, M>
  ComputeMetrics(M metric) : metric_(std::make_shared<M>(std::move(metric))) {}
  template <typename F>
    requires std::is_invocable_r_v<LogValues, F, const EvalPrediction&>
  ComputeMetrics(F function) : function_(std::move(function)) {}
  template <typename F>
    requires std::is_invocable_r_v<LogValues, F, const EvalPrediction&, bool>
  ComputeMetrics(F function) : batch_function_(std::move(function)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool empty() const { return !metric_ && !function_ && !batch_function_; }
  [[nodiscard]] const std::shared_ptr<Metric>& metric() const { return metric_; }
  [[nodiscard]] const Function& function() const { return function_; }
  [[nodiscard]] const BatchFunction& batch_function() const { return batch_function_; }

 private:
  std::shared_ptr<Metric> metric_;
  Function function_;
  BatchFunction batch_function_;
};

/// Computes the loss of a batch. `labels`: undefined where the batch has none.
/// `num_items_in_batch`: {}, the number of labels in all micro-batches of the step, by which a sum
/// of losses is to be divided. It counts all ranks with average_tokens_across_devices, and is
/// undefined where labels are not counted.
using ComputeLoss = std::function<at::Tensor(const ModelOutput& outputs, const at::Tensor& labels,
                                             const at::Tensor& num_items_in_batch)>;

/// An optimizer of your own over the model's parameters, and a schedule for it.
struct TrainerOptimizers {
  std::shared_ptr<torch::optim::Optimizer> optimizer = {};
  std::shared_ptr<LRScheduler> lr_scheduler = {};
};

struct TrainerOptions {
  TrainableModel model = {};  ///< What is trained; or set model_init.
  TrainingArguments args = {};
  TrainerDataset train_dataset = {};
  EvalDatasets eval_dataset = {};
  /// The tokenizer: saved with the model, and used to pad rows by default.
  std::optional<PreTrainedTokenizer> processing_class = {};
  DataCollator data_collator = {};  ///< Default: padding with processing_class, else stacking.
  ComputeMetrics compute_metrics = {};
  /// Makes the model, a new one for each train().
  std::function<TrainableModel()> model_init = {};
  ComputeLoss compute_loss_func = {};  ///< Instead of the model's own loss.
  std::vector<std::shared_ptr<TrainerCallback>> callbacks = {};
  TrainerOptimizers optimizers = {};
  /// Maps a batch's logits to what compute_metrics gets, for example their argmax.
  std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels)>
      preprocess_logits_for_metrics = {};
};

}  // namespace accelerate
