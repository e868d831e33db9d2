// What the library knows of an architecture: one value, which the architecture's own source makes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/models/config/architecture_config.h"

namespace accelerate {

class PreTrainedModel;

/// What a model is for.
enum class Task : std::uint8_t {
  base,
  sequence_classification,
  token_classification,
  question_answering,
  masked_lm,
  causal_lm,
  multiple_choice,
  seq2seq_lm,
};

using MakeModel = std::function<std::shared_ptr<PreTrainedModel>(const PretrainedConfig&)>;

namespace detail {

/// Pairs of names that mean the same.
using NamePairs = std::vector<std::pair<std::string_view, std::string_view>>;

/// How GGUF files of llama.cpp call what Transformers calls otherwise.
struct GgufNames {
  /// What is done to a tensor besides converting its type.
  enum class Step : std::uint8_t {
    none,
    interleave_queries,
    interleave_keys,
    transpose,
    subtract_one
  };

  std::string_view architecture;  ///< `general.architecture`.
  /// Keys of the metadata, without the architecture in front, and of config.json.
  NamePairs integers, numbers;
  /// Tensors outside the layers, without "weight" or "bias".
  NamePairs outside;
  std::string_view layers;  ///< What stands for "blk." in Transformers' names.
  NamePairs inside;         ///< Tensors of a layer.
  /// By name inside a layer. Biases are not transposed.
  std::map<std::string_view, Step> steps = {};
  bool adds_one_to_norms = false;  ///< Weights of norms are 1 more than in Transformers.
  /// If not empty: only files with this `general.name` are of this model_type.
  std::string_view name = {};
};

struct Architecture {
  std::string_view model_type;  ///< As in config.json.
  std::map<Task, MakeModel> classes;
  std::vector<ConfigKey> keys;  ///< The keys that the classes read, with their limits.
  SizeKeys size_keys = {};
  /// Keys that config.json may have in place of others, and these others: `attribute_map` of the class
  /// in Transformers. Where a file has both, the first counts, as in Python.
  NamePairs aliases = {};
  std::optional<GgufNames> gguf = {};  ///< None: no GGUF file of this architecture is read.
};

/// Returns the architecture of `model_type`, or null. Opens the library of its family, which costs
/// about a millisecond the first time. Throws ConfigError if this library is missing or is of
/// another build.
[[nodiscard]] const Architecture* find_architecture(std::string_view model_type);
/// Returns the architectures of all families that are installed, and opens the libraries of these.
[[nodiscard]] const std::vector<Architecture>& architectures();

/// What the library of a family exports: its architectures.
using FamilyFunction = const std::vector<Architecture>& (*)();
inline constexpr const char* kFamilyFunction = "accelerate_model_family";

}  // namespace detail
}  // namespace accelerate
