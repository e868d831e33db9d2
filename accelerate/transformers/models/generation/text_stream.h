// Decodes tokens that come one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate::detail {

/// Passes text to the sink as soon as no later token can change it: up to the last space, a line
/// feed, or an ideograph. Source: `TextStreamer` of Transformers.
class TextStream {
 public:
  using Sink = std::function<void(std::string_view text)>;
  TextStream(PreTrainedTokenizer tokenizer, Sink sink);
  void put(std::int64_t token);
  /// Passes the rest of the text to the sink.
  void end();

 private:
  [[nodiscard]] std::string text() const;
  void give(std::string_view text);

  PreTrainedTokenizer tokenizer_;
  Sink sink_;
  std::vector<std::int64_t> tokens_;  // The tokens of the current line.
  std::size_t given_ = 0;             // The bytes of their text that the sink has.
};

}  // namespace accelerate::detail
