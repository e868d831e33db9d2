// Options of a call of PreTrainedModel::generate(), besides its GenerationConfig.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string_view>

#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate {

struct GenerateOptions {
  /// Decodes tokens for stop_strings and stream_text, which need it.
  std::optional<PreTrainedTokenizer> tokenizer = {};
  /// Called with the new tokens of all rows, int64 {rows} on the CPU, as soon as they are there.
  /// Not allowed with a beam search, which knows its tokens only at its end.
  std::function<void(const at::Tensor& tokens)> stream_tokens = {};
  /// Called with new text, without special tokens: whole words, and the rest at the end. Allowed
  /// for one row only.
  std::function<void(std::string_view text)> stream_text = {};
};

}  // namespace accelerate
