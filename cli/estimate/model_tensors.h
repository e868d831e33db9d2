// Finds the tensors that a model consists of, from headers and configurations. No weights are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/formats/safetensors/safetensors_layout.h"

namespace accelerate::cli {

struct ModelTensor {
  std::string name;
  std::uint64_t elements = 0;
  /// In fp32, four bytes an element. Integers, which no cast changes, keep their own size.
  std::uint64_t bytes = 0;
  bool is_parameter = true;  ///< A floating tensor, which could be trained.
};

struct ModelTensors {
  std::string source;  ///< "bert/model.safetensors", for messages.
  std::vector<ModelTensor> tensors;
  /// Modules whose parts stay together; nullopt if that is not known.
  std::optional<std::vector<std::string>> undivided = {};
};

[[nodiscard]] ModelTensor model_tensor(const TensorSpec& spec);

/// Returns the tensors at `path`: a file of safetensors, torch.save or GGUF, an index of several
/// files, or a folder with one of these. Tied tensors count once. Throws CheckpointError. Cost:
/// headers are read.
[[nodiscard]] ModelTensors tensors_of_files(const std::filesystem::path& path);

/// Returns the tensors, with buffers, of the model that a config.json describes, as Python makes
/// it. Throws ConfigError for a model type that is not known here, and when this build has no
/// LibTorch. Cost: LibTorch is loaded, in another process.
[[nodiscard]] ModelTensors tensors_of_config(const std::filesystem::path& config);

/// Returns the tensors of the model `id` on the hub or in its cache. If the model's type is known
/// here, they come from its configuration, as in Python; else from the headers of its weights, of
/// which nothing else is fetched. Throws ConfigError where the model has neither, HubError,
/// NetworkError.
[[nodiscard]] ModelTensors tensors_of_repository(const std::string& id,
                                                 const std::string& revision);

/// Returns the tensors of `model`: a file, a folder, or a model of the hub. Throws ConfigError when
/// it is none of these.
[[nodiscard]] ModelTensors tensors_of(const std::string& model, const std::string& revision);

}  // namespace accelerate::cli
