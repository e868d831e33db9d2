// The tensors that a model consists of, from headers and configurations: no weights are read.
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
  /// In fp32: four bytes an element. Whole numbers, which no cast changes, keep their own size.
  std::uint64_t bytes = 0;
  bool is_parameter = true;  ///< A floating tensor, which could be trained.
};

struct ModelTensors {
  std::string source;  ///< "bert/model.safetensors", for messages.
  std::vector<ModelTensor> tensors;
  /// Modules whose parts stay together; nullopt where nobody says.
  std::optional<std::vector<std::string>> undivided = {};
};

[[nodiscard]] ModelTensor model_tensor(const TensorSpec& spec);

/// The tensors at `path`: a file of safetensors, torch.save or GGUF, an index of several, or a
/// folder with one of these. Tied ones count once. Throws CheckpointError. Cost: headers are read.
[[nodiscard]] ModelTensors tensors_of_files(const std::filesystem::path& path);

/// The tensors of the model that a config.json describes, as Python's makes it, its buffers
/// included. Throws ConfigError for a model type that is not known here and where this build has no
/// LibTorch. Cost: LibTorch is loaded, in another process.
[[nodiscard]] ModelTensors tensors_of_config(const std::filesystem::path& config);

/// The tensors of the model `id` on the hub or in its cache: by its configuration where its type is
/// known here, as Python does, else by the headers of its weights, of which nothing else is
/// fetched. Throws ConfigError where it has neither, HubError, NetworkError.
[[nodiscard]] ModelTensors tensors_of_repository(const std::string& id,
                                                 const std::string& revision);

/// By whichever of these `model` is. Throws ConfigError when it is none.
[[nodiscard]] ModelTensors tensors_of(const std::string& model, const std::string& revision);

}  // namespace accelerate::cli
