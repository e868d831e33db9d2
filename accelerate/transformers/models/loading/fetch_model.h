// The files of a model, from wherever they are.
#pragma once

#include <filesystem>
#include <string>

#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail {

/// Returns the folder `name_or_folder` unchanged if it exists. Otherwise fetches the repository of
/// that name, and returns its folder in the cache. Only the configuration and the weights are
/// fetched: `gguf_file` if it is not empty, else the first of model.safetensors, its index with its
/// shards, pytorch_model.bin, its index with its shards. Throws what fetch_folder() and
/// read_weight_index() throw.
[[nodiscard]] std::filesystem::path fetch_model(const std::string& name_or_folder,
                                                const HubOptions& options,
                                                const std::string& gguf_file);

}  // namespace accelerate::detail
