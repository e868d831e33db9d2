// What a call of a PreTrainedTokenizer does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate::detail {

/// The part of a tokenizer's configuration that a call needs.
struct CallSettings {
  std::optional<std::size_t> model_max_length;
  std::optional<std::string> pad_token;
  std::optional<std::int64_t> pad_id;
  Side padding_side, truncation_side;
  const std::vector<std::string>& model_input_names;
};

[[nodiscard]] BatchEncoding call(Tokenizer tokenizer, const CallSettings& settings,
                                 const Texts& text, const TokenizerCallOptions& options);
[[nodiscard]] BatchEncoding pad(const CallSettings& settings, BatchEncoding batch,
                                const TokenizerPadOptions& options);

}  // namespace accelerate::detail
