// Puts special tokens around the tokens of a text or a pair.
#pragma once

#include <memory>
#include <vector>

#include "accelerate/transformers/tokenizers/encoding.h"
#include "accelerate/transformers/tokenizers/json_view.h"

namespace accelerate::detail {

/// Immutable; several threads may use one.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// How many special tokens a text or a pair gets.
  [[nodiscard]] virtual std::size_t added(bool is_pair) const = 0;
  /// Adds special tokens to `texts`, and adjusts type ids and offsets. `texts` holds one or two
  /// encodings, or the parts that an earlier post-processor made of them.
  virtual void process(std::vector<Encoding>& texts, bool adds_special_tokens) const = 0;
};

/// Reads the post-processor of a tokenizer.json. Throws ConfigError if it is damaged or unknown.
[[nodiscard]] std::unique_ptr<PostProcessor> read_post_processor(const JsonView& json);

}  // namespace accelerate::detail
