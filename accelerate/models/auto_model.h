// Models by name: the class that a configuration asks for, with its weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/hub/repository.h"
#include "accelerate/models/pre_trained_model.h"

namespace accelerate {

/// What a model is for.
enum class Task : std::uint8_t {
  base,
  sequence_classification,
  token_classification,
  question_answering,
  masked_lm,
  causal_lm,
  multiple_choice,
};

struct FromPretrainedOptions {
  /// A GGUF file in the folder or repository, which has the configuration too. Its weights become
  /// fp32 unless `dtype` says otherwise.
  std::string gguf_file = {};
  /// Instead of config.json.
  std::optional<PretrainedConfig> config = {};
  /// Of a new head: as many classes, LABEL_0 and so on.
  std::optional<std::int64_t> num_labels = {};
  /// Of a new head: the names of its classes.
  std::vector<std::string> id2label = {};
  /// "float32", "bfloat16", "float16", "float64", or "auto": what config.json says, else the type
  /// of the first floating tensor.
  std::string dtype = "auto";
  /// Weights of another shape are made anew instead of refused: a head for other classes.
  bool ignore_mismatched_sizes = false;
  std::string attn_implementation = "sdpa";
  HubOptions hub = {};
};

using MakeModel = std::function<std::shared_ptr<PreTrainedModel>(const PretrainedConfig&)>;

/// Adds a class for `model_type` and `task`, or puts it in the place of the one that is there. Not
/// from several threads at once.
void register_model(const std::string& model_type, Task task, MakeModel make);

/// The model types that there is a class of for `task`, sorted.
[[nodiscard]] std::vector<std::string> known_model_types(Task task);

namespace detail {
// clang-format off
[[nodiscard]] std::shared_ptr<PreTrainedModel> model_from_pretrained(Task task, const std::string& name_or_folder, const FromPretrainedOptions& options);
[[nodiscard]] std::shared_ptr<PreTrainedModel> model_from_config(Task task, const PretrainedConfig& config);
// clang-format on

template <Task task>
struct AutoModelFor {
  /// The model of a folder or of a repository of the hub, whose configuration and weights it
  /// fetches: model.safetensors or its shards, else pytorch_model.bin or its shards. In evaluation
  /// mode. What its files lack is made anew, from LibTorch's generator as Transformers makes it,
  /// and a warning lists it. Throws ConfigError for an unknown model_type, with the known ones, and
  /// where the configuration contradicts itself; CheckpointError, with the tensors, for weights of
  /// another model or shape; what fetch_folder() throws. Local; processes of one machine that share
  /// a cache fetch once.
  [[nodiscard]] static std::shared_ptr<PreTrainedModel> from_pretrained(
      const std::string& name_or_folder, const FromPretrainedOptions& options = {}) {
    return model_from_pretrained(task, name_or_folder, options);
  }
  /// A model without trained weights, in training mode.
  [[nodiscard]] static std::shared_ptr<PreTrainedModel> from_config(
      const PretrainedConfig& config) {
    return model_from_config(task, config);
  }
};
}  // namespace detail

/// config.json of any model; model_type says of which.
using AutoConfig = PretrainedConfig;
using AutoModel = detail::AutoModelFor<Task::base>;
using AutoModelForSequenceClassification = detail::AutoModelFor<Task::sequence_classification>;
using AutoModelForTokenClassification = detail::AutoModelFor<Task::token_classification>;
using AutoModelForQuestionAnswering = detail::AutoModelFor<Task::question_answering>;
using AutoModelForMaskedLM = detail::AutoModelFor<Task::masked_lm>;
using AutoModelForCausalLM = detail::AutoModelFor<Task::causal_lm>;
using AutoModelForMultipleChoice = detail::AutoModelFor<Task::multiple_choice>;

}  // namespace accelerate
