// Models by name: the class that a configuration asks for, with its weights.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/repository.h"
#include "accelerate/transformers/models/architecture.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {

struct FromPretrainedOptions {
  /// The name of a GGUF file in the folder or repository, which holds both configuration and
  /// weights. Its weights become fp32 unless `dtype` says otherwise.
  std::string gguf_file = {};
  /// Used instead of config.json.
  std::optional<PretrainedConfig> config = {};
  /// The number of classes of a new head, named LABEL_0 and so on.
  std::optional<std::int64_t> num_labels = {};
  /// The names of the classes of a new head.
  std::vector<std::string> id2label = {};
  /// "float32", "bfloat16", "float16", "float64", or "auto": what config.json says, else the type
  /// of the first floating-point tensor.
  std::string dtype = "auto";
  /// Whether weights of another shape are initialised instead of refused, as for a head with other
  /// classes.
  bool ignore_mismatched_sizes = false;
  std::string attn_implementation = "sdpa";
  HubOptions hub = {};
};

/// Adds a class for `model_type` and `task`, or replaces the class that is there. Must not be
/// called from several threads at the same time.
void register_model(const std::string& model_type, Task task, MakeModel make);

/// Returns the model types that have a class for `task`, sorted.
[[nodiscard]] std::vector<std::string> known_model_types(Task task);

namespace detail {
// clang-format off
[[nodiscard]] std::shared_ptr<PreTrainedModel> model_from_pretrained(Task task, const std::string& name_or_folder, const FromPretrainedOptions& options);
[[nodiscard]] std::shared_ptr<PreTrainedModel> model_from_config(Task task, const PretrainedConfig& config);
// clang-format on

template <Task task>
struct AutoModelFor {
  /// Makes the model of a folder or of a repository of the hub, in evaluation mode. Fetches the
  /// configuration, and model.safetensors or its shards, else pytorch_model.bin or its shards.
  /// Initialises weights that the files lack as Transformers does, from LibTorch's generator, and
  /// lists them in a warning. Local; processes of one machine that share a cache fetch once.
  /// Throws ConfigError for an unknown model_type (the message lists the known ones), and if the
  /// configuration contradicts itself. Throws CheckpointError, which names the tensors, for weights
  /// of another model or shape, and what fetch_folder() throws.
  [[nodiscard]] static std::shared_ptr<PreTrainedModel> from_pretrained(
      const std::string& name_or_folder, const FromPretrainedOptions& options = {}) {
    return model_from_pretrained(task, name_or_folder, options);
  }
  /// Makes a model without trained weights, in training mode.
  [[nodiscard]] static std::shared_ptr<PreTrainedModel> from_config(
      const PretrainedConfig& config) {
    return model_from_config(task, config);
  }
};
}  // namespace detail

/// The config.json of any model; its model_type says which.
using AutoConfig = PretrainedConfig;
using AutoModel = detail::AutoModelFor<Task::base>;
using AutoModelForSequenceClassification = detail::AutoModelFor<Task::sequence_classification>;
using AutoModelForTokenClassification = detail::AutoModelFor<Task::token_classification>;
using AutoModelForQuestionAnswering = detail::AutoModelFor<Task::question_answering>;
using AutoModelForMaskedLM = detail::AutoModelFor<Task::masked_lm>;
using AutoModelForCausalLM = detail::AutoModelFor<Task::causal_lm>;
using AutoModelForSeq2SeqLM = detail::AutoModelFor<Task::seq2seq_lm>;
using AutoModelForMultipleChoice = detail::AutoModelFor<Task::multiple_choice>;

}  // namespace accelerate
