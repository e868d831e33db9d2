#include "accelerate/transformers/trainer/preflight.h"

#include <ATen/ops/zeros.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/compat/matrix_products.h"
#include "accelerate/transformers/models/pre_trained_model.h"
#include "accelerate/transformers/trainer/create_optimizer.h"
#include "accelerate/transformers/trainer/data/label_columns.h"
#include "accelerate/transformers/trainer/loop/evaluation.h"
#include "accelerate/transformers/trainer/model_size.h"
#include "accelerate/transformers/trainer/ranks.h"
#include "accelerate/watch/profiler/memory_meter.h"

namespace accelerate::detail {
namespace {

// What an error calls a dataset, and how many neighbouring rows make a batch.
struct Place {
  std::string name;
  std::int64_t batch_size = 1;
};

// Returns the number of classes of a model that picks a class for a row or a token; 0 for other
// models.
std::int64_t classes_of(const TrainableModel& model) {
  const auto* pretrained = model.pretrained();
  if (pretrained == nullptr) return 0;
  const std::string name = model.name();
  const bool classifies =
      name.ends_with("ForSequenceClassification") || name.ends_with("ForTokenClassification");
  const auto classes = classifies ? pretrained->config().num_labels() : 0;
  return classes > 1 ? classes : 0;
}

void check_label(std::int64_t label, std::int64_t classes, std::size_t row,
                 const std::string& where) {
  if (label == -100 || (label >= 0 && label < classes)) return;
  throw ConfigError(where + ": the label of row " + std::to_string(row) + " is " +
                    std::to_string(label) + "; the model has " + std::to_string(classes) +
                    " classes, so 0 to " + std::to_string(classes - 1) +
                    " are allowed, and -100 means no label. Make the model with enough classes "
                    "(num_labels or id2label), or correct the labels");
}

void check_labels_of(const Dataset& dataset, std::int64_t classes, const std::string& where) {
  const std::string column = label_column(dataset);
  if (classes == 0 || column.empty()) return;
  std::size_t row = 0;
  for (const Value& value : dataset.column(column)) {
    if (value.holds<std::int64_t>()) check_label(value.integer(), classes, row, where);
    if (value.holds<std::vector<std::int64_t>>())
      for (const std::int64_t label : value.integers()) check_label(label, classes, row, where);
    ++row;
  }
}

// Throws where columns of labels are missing: evaluations would have neither a loss nor metrics.
void check_label_names(const TrainerCore& core, const Dataset& dataset, const std::string& where) {
  if (core.args.label_names.empty()) return;
  const auto missing = missing_labels(core.recipe, dataset);
  if (missing.empty()) return;
  throw ConfigError("label_names has '" + missing.front() + "', which is not a column of " + where +
                    "; it has " + join(dataset.column_names(), ", ") + "." +
                    did_you_mean(missing.front(), dataset.column_names()));
}

void check_dataset(const TrainerCore& core, const TrainerDataset& dataset, const Place& place) {
  const std::string& where = place.name;
  if (dataset.size() == std::size_t{0})
    throw ConfigError(where + " is empty: give a dataset with one row or more");
  if (dataset.rows() == nullptr) return;
  const Dataset used = without_unused_columns(*dataset.rows(), core.recipe);
  const bool takes_ids =
      core.trained.model().pretrained() != nullptr && core.args.remove_unused_columns;
  if (takes_ids && !used.has_column("input_ids"))
    throw ConfigError(where + " has no column input_ids, which " + core.trained.model().name() +
                      " needs; it has " + join(dataset.rows()->column_names(), ", ") +
                      ". Tokenize it by map()");
  check_label_names(core, *dataset.rows(), where);
  check_rows_fit(core.recipe, used, place.batch_size, where);
  if (keeps_labels(core.options.data_collator) && !core.options.compute_loss_func)
    check_labels_of(*dataset.rows(), classes_of(core.trained.model()), where);
}

// Throws where no batch to train on would have labels, for a model whose loss needs them.
void check_training_labels(const TrainerCore& core) {
  const auto& dataset = core.options.train_dataset;
  if (dataset.rows() == nullptr || core.options.compute_loss_func ||
      core.trained.model().pretrained() == nullptr)
    return;
  const auto missing = missing_labels(core.recipe, *dataset.rows());
  if (missing.empty()) return;
  throw ConfigError("train_dataset has no column '" + join(missing, "' and '") +
                    "', so that there is no loss. " + how_to_name_labels(dataset, core.recipe));
}

// Returns how many neighbours a rank gets of a batch of `batch_size`.
std::int64_t neighbours(const TrainerCore& core, std::int64_t batch_size) {
  return core.accelerator.split_batches() ? batch_size / core.accelerator.num_processes()
                                          : batch_size;
}

// In a random order any two rows may meet in a batch.
std::int64_t neighbours_in_training(const TrainerCore& core) {
  const std::int64_t in_order = neighbours(core, core.recipe.train_batch_size);
  if (in_order <= 1) return 1;
  const auto strategy = static_cast<SamplingStrategy>(core.args.train_sampling_strategy);
  if (strategy == SamplingStrategy::sequential) return in_order;
  return strategy == SamplingStrategy::random && !core.args.max_tokens_per_batch
             ? std::numeric_limits<std::int64_t>::max()
             : 1;
}

std::string grouped_digits(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = static_cast<std::int64_t>(text.size()) - 3; place > 0; place -= 3)
    text.insert(static_cast<std::size_t>(place), ",");
  return text;
}

// The bytes of parameters, gradients and optimizer state; activations come on top.
std::int64_t state_bytes(const TrainerCore& core, const ModelSize& size) {
  const auto name = static_cast<OptimizerName>(core.args.optim);
  const bool is_adam = name == OptimizerName::adamw_torch ||
                       name == OptimizerName::adamw_torch_fused ||
                       name == OptimizerName::schedule_free_adamw;
  const std::int64_t moments = is_adam ? 2 : 1;
  const std::int64_t bytes = 4 * (size.parameters + size.trained * (1 + moments));
  const bool is_sharded = core.trained.is_sharded();
  return is_sharded ? bytes / core.accelerator.num_processes() : bytes;
}

// How many numbers the model returns for a row of `tokens` tokens; 0 where that is not known.
std::int64_t outputs_of_row(const TrainableModel& model, std::int64_t tokens) {
  const auto* pretrained = model.pretrained();
  if (pretrained == nullptr) return 0;
  const std::string name = model.name();
  if (name.ends_with("ForSequenceClassification")) return pretrained->config().num_labels();
  if (name.ends_with("ForTokenClassification")) return tokens * pretrained->config().num_labels();
  if (name.ends_with("ForQuestionAnswering")) return 2 * tokens;
  const auto words = pretrained->config().get<std::int64_t>("vocab_size", 0);
  return name.ends_with("LMHeadModel") || name.ends_with("LM") ? tokens * words : 0;
}

// The bytes of all predictions, which a function of the user's gets on each rank.
std::int64_t prediction_bytes(const TrainerCore& core) {
  std::int64_t numbers = 0;
  if (!core.options.compute_metrics.function() || core.args.prediction_loss_only) return 0;
  for (const auto& [name, dataset] : core.options.eval_dataset.sets()) {
    if (dataset.rows() == nullptr || !dataset.rows()->has_column("input_ids")) continue;
    const auto lengths = lengths_of(*dataset.rows());
    const std::int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
    const auto rows = static_cast<std::int64_t>(lengths.size());
    numbers = std::max(numbers, rows * outputs_of_row(core.trained.model(), longest));
  }
  return 4 * numbers;
}

std::vector<double> planned_rates(const TrainerCore& core, std::int64_t max_steps) {
  torch::optim::SGD stand_in({at::zeros({1})}, torch::optim::SGDOptions(core.args.learning_rate));
  const auto schedule = core.trained.planned_schedule(stand_in, max_steps);
  std::vector<double> rates;
  if (schedule->needs_metric()) return rates;
  const std::int64_t shown = std::min<std::int64_t>(max_steps, 100'000);
  for (std::int64_t step = 0; step < shown; ++step) {
    rates.push_back(schedule->get_last_lr().front());
    schedule->step();
  }
  return rates;
}

// Without a length ranks cannot know which of them ends first.
void check_shares(const TrainerCore& core) {
  const auto& config = core.args.accelerator_config;
  const bool deals = config.dispatch_batches.value_or(true);
  const auto& dataset = core.options.train_dataset;
  if (config.even_batches || deals || core.accelerator.num_processes() == 1 ||
      dataset.rows() != nullptr || dataset.size())
    return;
  throw ConfigError(
      "accelerator_config sets even_batches and dispatch_batches to false, and train_dataset does "
      "not know its length: " +
      std::to_string(core.accelerator.num_processes()) +
      " ranks cannot end an epoch together. Leave one of the two out");
}

}  // namespace

void check_training(const TrainerCore& core) {
  if (core.options.train_dataset.empty())
    throw ConfigError("train() needs train_dataset, which the Trainer was not given");
  check_dataset(core, core.options.train_dataset,
                {.name = "train_dataset", .batch_size = neighbours_in_training(core)});
  check_training_labels(core);
  check_evaluation(core);
  if (evaluates_in_training(core.args))
    for (const auto& [name, dataset] : core.options.eval_dataset.sets())
      check_dataset(core, dataset,
                    {.name = name_of_eval_set(name),
                     .batch_size = neighbours(core, core.args.per_device_eval_batch_size)});
  if (core.options.train_dataset.rows() == nullptr && !core.options.train_dataset.size() &&
      core.args.max_steps <= 0)
    throw ConfigError(
        "train_dataset does not know its length, and max_steps is not set: set max_steps to the "
        "number of optimizer steps",
        error_name::kNoLength);
  check_shares(core);
}

void make_output_dir(const TrainerCore& core) {
  std::error_code error;
  std::filesystem::create_directories(core.args.output_dir, error);
  if (error || ::access(core.args.output_dir.c_str(), W_OK) != 0)
    throw ConfigError("output_dir " + core.args.output_dir + " cannot be written into: " +
                      (error ? error.message() : "no permission") + ". Name another folder");
}

std::unique_ptr<FolderLock> lock_output_dir(TrainerCore& core) {
  const std::filesystem::path folder = core.args.output_dir;
  std::unique_ptr<FolderLock> lock;
  on_main_process(core.accelerator, [&] {
    try {
      lock = lock_file(folder, folder / ".training.lock");
    } catch (const FolderInUse& error) {
      throw ConfigError("output_dir " + folder.string() + " is used by another training, " +
                        error.holder() + ": name another folder, or wait for its end");
    }
  });
  return lock;
}

std::string rate_curve(const std::vector<double>& rates, std::size_t width) {
  constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (rates.empty()) return "";
  const double most = *std::ranges::max_element(rates);
  std::string curve;
  for (std::size_t column = 0; column < std::min(width, rates.size()); ++column) {
    const double rate = rates[column * rates.size() / std::min(width, rates.size())];
    const double share = most > 0 ? rate / most : 0;
    curve += kBlocks[std::min<std::size_t>(static_cast<std::size_t>(share * 8), 7)];
  }
  return curve;
}

std::string why_nothing_was_trained(const TrainerCore& core, const TrainingPlan& plan) {
  const auto& args = core.args;
  const std::int64_t step = core.record.state.global_step;
  const std::string nothing = "nothing was trained: ";
  if (step < plan.max_steps && core.record.control.should_training_stop)
    return nothing + "the training ended at step " + std::to_string(step) + " of " +
           std::to_string(plan.max_steps) +
           " before it made one, because a callback stopped it or "
           "the dataset gave no batch";
  const bool by_steps = args.max_steps > 0;
  char epochs[32];
  std::snprintf(epochs, sizeof epochs, "%g", args.num_train_epochs);
  return nothing + "the checkpoint has done " + std::to_string(step) +
         " steps, and the training ends at step " + std::to_string(plan.max_steps) + " (" +
         (by_steps ? "max_steps is " + std::to_string(args.max_steps)
                   : std::string("num_train_epochs is ") + epochs + ", with " +
                         std::to_string(plan.updates_per_epoch) + " steps an epoch") +
         "). To train on, raise " + (by_steps ? "max_steps" : "num_train_epochs");
}

std::string describe_training(const TrainerCore& core, const TrainingPlan& plan) {
  const auto size = size_of(core.trained.model());
  const auto& args = core.args;
  std::string text = "training " + core.trained.model().name();
  const auto line = [&](const char* name, const std::string& value) {
    text += "\n  " + std::string(name) + ": " + value;
  };
  line("examples", grouped_digits(plan.num_examples));
  line("batch", std::to_string(core.recipe.train_batch_size) + " a rank, " +
                    std::to_string(plan.accumulation) + " a step, " +
                    std::to_string(plan.total_batch_size) + " examples a step on " +
                    std::to_string(core.accelerator.num_processes()) + " processes");
  line("steps", grouped_digits(plan.max_steps) + ", of which " +
                    grouped_digits(warmup_steps(args, plan.max_steps)) + " warm up" +
                    (core.record.state.global_step > 0
                         ? "; " + grouped_digits(core.record.state.global_step) + " are done"
                         : ""));
  line("learning rate",
       core.trained.schedule_name() + " " + rate_curve(planned_rates(core, plan.max_steps), 32));
  line("optimizer", core.trained.optimizer_name());
  line("precision", std::string(to_string(core.accelerator.mixed_precision())));
  if (core.accelerator.device().is_cpu())
    line("matrix products", to_string(compat::matrix_library()));
  line("parameters",
       grouped_digits(size.trained) + " trained of " + grouped_digits(size.parameters));
  line("memory", convert_bytes(state_bytes(core, size)) +
                     " a rank for parameters, gradients and optimizer; activations come on top");
  if (const std::int64_t bytes = prediction_bytes(core); bytes > 0)
    line("evaluation",
         convert_bytes(bytes) + " a rank for the predictions that compute_metrics gets" +
             (core.options.preprocess_logits_for_metrics ? ", before preprocess_logits_for_metrics"
                                                         : ""));
  return text;
}

}  // namespace accelerate::detail
