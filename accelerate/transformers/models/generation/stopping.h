// When a row that is being generated ends.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accelerate/transformers/models/config/generation_config.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate::detail {

/// Texts that end a row. A text is found if it ends within the text of the last token; it may begin
/// in the prompt.
class StopStrings {
 public:
  /// Throws UsageError for an empty text.
  StopStrings(PreTrainedTokenizer tokenizer, std::vector<std::string> texts);
  [[nodiscard]] bool end(std::span<const std::int64_t> ids) const;

 private:
  PreTrainedTokenizer tokenizer_;
  std::vector<std::string> texts_;
  std::size_t longest_ = 0;
};

/// The conditions under which a row ends. The configuration has all defaults and a max_length.
class Stopping {
 public:
  /// Throws UsageError for stop_strings without a tokenizer.
  Stopping(const GenerationConfig& config, const std::optional<PreTrainedTokenizer>& tokenizer);
  /// ids: int64 {rows, tokens}. Returns bool {rows}: which rows end with their last token.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& ids) const;

 private:
  std::int64_t max_length_;
  at::Tensor end_tokens_;
  std::optional<StopStrings> strings_;
};

}  // namespace accelerate::detail
