// Loads the weights of a checkpoint into a model that has no memory yet.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/formats/gguf/gguf.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/hub/repository.h"
#include "accelerate/transformers/models/config/pretrained_config.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate::detail {

// The files of a model, from wherever they are.

/// Returns the folder `name_or_folder` unchanged if it exists. Otherwise fetches the repository of
/// that name, and returns its folder in the cache. Only the configuration and the weights are
/// fetched: `gguf_file` if it is not empty, else the first of model.safetensors, its index with its
/// shards, pytorch_model.bin, its index with its shards. Throws what fetch_folder() and
/// read_weight_index() throw.
[[nodiscard]] std::filesystem::path fetch_model(const std::string& name_or_folder,
                                                const HubOptions& options,
                                                const std::string& gguf_file);

// A GGUF file as Transformers reads it: a configuration, and weights by Transformers' names.

/// Returns the configuration that the metadata describes. Throws ConfigError, which lists the
/// architectures that have GgufNames, for another architecture; CheckpointError for a value of
/// another kind.
[[nodiscard]] PretrainedConfig config_of_gguf(const GgufFile& file);

/// Returns the weights in fp32. They are mapped if the file has fp32, else converted when they are
/// read. Each goes through the GgufNames::Step of its name. A tensor that Transformers does not know keeps its name. Throws as config_of_gguf(),
/// and CheckpointError for a shape that cannot be reordered or transposed.
[[nodiscard]] WeightReader weights_of_gguf(const GgufFile& file);

// A readable report of how a model differs from the files that it was loaded from.

struct LoadReport {
  /// A line of the table: a tensor, and what became of it.
  struct Line {
    std::string name, status;
  };
  std::vector<Line> lines;

  /// Returns a table of two columns. Tensors whose names differ only in a number, such as a layer's
  /// number, share a line: "layer.{0…11}.weight".
  [[nodiscard]] std::string table() const;
};

struct LoadPretrainedOptions {
  std::string dtype = "auto";
  bool ignore_mismatched_sizes = false;
};

/// Gives every parameter of `model`, all on the meta device, its values. They come from `weights`,
/// without a copy if the type fits, so that `weights` must be writable. Parameters that `weights`
/// lacks are initialised as by Transformers' _init_weights. `place` stands for the weights in
/// messages.
/// Names may have or lack the prefix of the base model, and norms may have the older names `gamma`
/// and `beta`. Warns of tensors that the files lack, that only the files have, or that have another
/// shape.
/// Throws CheckpointError when there are no weights, when none fits the model, when tied weights
/// differ, for another kind of number (see are_of_one_kind), and for another shape unless
/// ignore_mismatched_sizes; UsageError for an unknown dtype.
void load_pretrained_weights(PreTrainedModel& model, WeightReader weights, const std::string& place,
                             const LoadPretrainedOptions& options);

}  // namespace accelerate::detail
