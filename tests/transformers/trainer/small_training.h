// Small trainings, for tests.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/trainer/trainer.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate::testing {

/// `count` rows of 3 to 7 tokens, whose label says whether the first token is beyond 14.
inline Dataset small_rows(std::size_t count, std::size_t skip = 0) {
  std::vector<Row> rows;
  for (std::size_t i = skip; i < skip + count; ++i) {
    std::vector<std::int64_t> ids;
    for (std::size_t t = 0; t < 3 + i % 5; ++t)
      ids.push_back(static_cast<std::int64_t>(1 + (i * 7 + t * 3 + i * i * t) % 29));
    const std::vector<std::int64_t> mask(ids.size(), 1);
    const std::int64_t label = ids.front() > 14 ? 1 : 0;
    rows.push_back(Row{{"input_ids", ids}, {"attention_mask", mask}, {"label", label}});
  }
  return Dataset::from_rows(rows);
}

/// Fills up with zeros, as a tokenizer whose padding token is 0 would.
inline Inputs pad_rows(std::vector<Row> rows) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row["input_ids"].integers().size());
  for (Row& row : rows) {
    for (const char* name : {"input_ids", "attention_mask"}) {
      if (!row.contains(name)) continue;
      auto padded = row[name].integers();
      padded.resize(longest, 0);
      row.set(name, padded);
    }
  }
  return default_data_collator(std::move(rows));
}

/// A BERT for two classes; the same weights each time.
inline std::shared_ptr<PreTrainedModel> small_classifier(std::uint64_t seed = 5,
                                                         std::int64_t classes = 2) {
  at::manual_seed(seed);
  PretrainedConfig config = small_bert_config();
  config.set_num_labels(classes);
  return AutoModelForSequenceClassification::from_config(config);
}

/// Without bars, checkpoints and pushes: tests ask for what they look at.
inline TrainingArguments quiet_arguments(const std::filesystem::path& folder) {
  TrainingArguments args;
  args.output_dir = folder.string();
  args.per_device_train_batch_size = 4;
  args.per_device_eval_batch_size = 8;
  args.learning_rate = 5e-3;
  args.num_train_epochs = 1;
  args.save_strategy = "no";
  args.logging_steps = 1;
  args.disable_tqdm = true;
  args.use_cpu = true;
  return args;
}

/// 22 rows to train on, so 6 batches of which the last has 2; 10 to evaluate on.
inline TrainerOptions small_training(TrainingArguments args) {
  at::set_num_threads(1);  // Threads would wait for one another more than they compute.
  return {.model = small_classifier(),
          .args = std::move(args),
          .train_dataset = small_rows(22),
          .eval_dataset = small_rows(10, 50),
          .data_collator = pad_rows};
}

/// The parameters of a model, one behind the other.
inline std::vector<at::Tensor> weights_of(const TrainableModel& model) {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : model.module()->parameters())
    weights.push_back(parameter.detach().clone());
  return weights;
}

inline bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].equal(b[i])) return false;
  return true;
}

/// The names of what is logged of one kind: those entries that have `name`.
inline std::vector<double> logged(const TrainerState& state, const std::string& name) {
  std::vector<double> values;
  for (const auto& logs : state.log_history)
    if (const double* value = logs.find(name)) values.push_back(*value);
  return values;
}

}  // namespace accelerate::testing
