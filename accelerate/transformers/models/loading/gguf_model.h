// A GGUF file as Transformers reads it: a configuration, and weights by Transformers' names.
#pragma once

#include <memory>

#include "accelerate/formats/gguf/gguf.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate::detail {

/// Returns the configuration that the metadata describes. Reads the architectures llama (a Mistral
/// if its name is "mistral"), qwen2 and gpt2. Throws ConfigError, which lists them, for another
/// architecture; CheckpointError for a value of another kind.
[[nodiscard]] PretrainedConfig config_of_gguf(const GgufFile& file);

/// Returns the weights in fp32. They are mapped if the file has fp32, else converted when they are
/// read. llama's queries and keys get Transformers' order of rows, and GPT-2's matrices are
/// transposed. A tensor that Transformers does not know keeps its name. Throws as config_of_gguf(),
/// and CheckpointError for a shape that cannot be reordered or transposed.
[[nodiscard]] WeightReader weights_of_gguf(const GgufFile& file);

}  // namespace accelerate::detail
