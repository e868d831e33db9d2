// Beside a GenerationConfig: what a call of PreTrainedModel::generate() is given.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string_view>

#include "accelerate/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate {

struct GenerateOptions {
  /// What stop_strings and stream_text are read with.
  std::optional<PreTrainedTokenizer> tokenizer = {};
  /// Called with the new tokens of all rows, int64 {rows} on the CPU, as soon as they are there;
  /// not of a beam search, which knows them at its end.
  std::function<void(const at::Tensor& tokens)> stream_tokens = {};
  /// Called with the new text of one row, without special tokens: whole words, what is left at the
  /// end.
  std::function<void(std::string_view text)> stream_text = {};
};

}  // namespace accelerate
