// The parts of a tokenizer.json that may change while it is in use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/added_token.h"
#include "accelerate/transformers/tokenizers/encoding.h"
#include "accelerate/transformers/tokenizers/json_view.h"

namespace accelerate::detail {

[[nodiscard]] std::optional<TruncationOptions> read_truncation(const JsonView& root);
[[nodiscard]] std::optional<PaddingOptions> read_padding(const JsonView& root);
/// Returns the tokens with their ids, in the order of the file.
[[nodiscard]] std::vector<std::pair<std::uint32_t, AddedToken>> read_added_tokens(
    const JsonView& root);

/// Returns `source`, a tokenizer.json, with these added tokens, truncation and padding.
[[nodiscard]] std::string write_tokenizer_file(
    const std::string& source, const std::map<std::uint32_t, AddedToken>& added_tokens,
    const std::optional<TruncationOptions>& truncation,
    const std::optional<PaddingOptions>& padding);

}  // namespace accelerate::detail
