// A GGUF file as Transformers reads it: a configuration, and weights by Transformers' names.
#pragma once

#include <memory>

#include "accelerate/checkpoint/weight_files.h"
#include "accelerate/formats/gguf/gguf.h"
#include "accelerate/models/config/pretrained_config.h"

namespace accelerate::detail {

/// The configuration that the metadata gives: of llama (with the name "mistral": of Mistral),
/// qwen2 and gpt2. Throws ConfigError, with these names, for another architecture; CheckpointError
/// for a value of another kind.
[[nodiscard]] PretrainedConfig config_of_gguf(const GgufFile& file);

/// The weights: fp32, mapped where the file has them so, else dequantised when they are read;
/// llama's queries and keys in Transformers' order of rows, GPT-2's matrices transposed. A tensor
/// that Transformers does not know keeps its name. Throws as config_of_gguf(), and CheckpointError
/// for a shape that such a step does not fit.
[[nodiscard]] WeightReader weights_of_gguf(const GgufFile& file);

}  // namespace accelerate::detail
