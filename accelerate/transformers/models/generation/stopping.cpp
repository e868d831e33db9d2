#include "accelerate/transformers/models/generation/stopping.h"

#include <ATen/ops/full.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {

StopStrings::StopStrings(PreTrainedTokenizer tokenizer, std::vector<std::string> texts)
    : tokenizer_(std::move(tokenizer)), texts_(std::move(texts)) {
  for (const std::string& text : texts_) {
    if (text.empty()) throw UsageError("a stop string is empty, which every text ends with");
    longest_ = std::max(longest_, text.size());
  }
}

bool StopStrings::end(std::span<const std::int64_t> ids) const {
  // Every token has at least one byte. Two more tokens are read, since the first one may lose its
  // space, and may begin inside a character.
  const auto tail = ids.last(std::min(ids.size(), longest_ + 2));
  const auto text_of = [&](std::span<const std::int64_t> part) {
    return tokenizer_.decode(part, /*skip_special_tokens=*/false,
                             /*clean_up_tokenization_spaces=*/false);
  };
  const std::string text = text_of(tail), before = text_of(tail.first(tail.size() - 1));
  const auto [same, end] = std::ranges::mismatch(before, text);
  const auto common = static_cast<std::size_t>(same - before.begin());
  return std::ranges::any_of(texts_, [&](const std::string& stop) {
    const std::size_t first = common < stop.size() ? 0 : common - stop.size() + 1;
    return text.find(stop, first) != std::string::npos;
  });
}

Stopping::Stopping(const GenerationConfig& config,
                   const std::optional<PreTrainedTokenizer>& tokenizer)
    : max_length_(*config.max_length) {
  if (config.eos_token_id) end_tokens_ = at::tensor(*config.eos_token_id, at::kLong);
  if (!config.stop_strings || config.stop_strings->empty()) return;
  if (!tokenizer)
    throw UsageError("stop_strings are texts, and generate() was given no tokenizer to read with");
  strings_.emplace(*tokenizer, *config.stop_strings);
}

at::Tensor Stopping::operator()(const at::Tensor& ids) const {
  const auto options = ids.options().dtype(at::kBool);
  const at::Tensor last = ids.select(1, ids.size(1) - 1);
  at::Tensor ends = at::full({ids.size(0)}, ids.size(1) >= max_length_, options);
  if (end_tokens_.defined()) ends.logical_or_(at::isin(last, end_tokens_.to(last.device())));
  if (!strings_) return ends;
  const at::Tensor rows = ids.to(at::kCPU).contiguous();
  const auto length = static_cast<std::size_t>(rows.size(1));
  at::Tensor found = at::empty({rows.size(0)}, at::kBool);
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const std::span<const std::int64_t> tokens(
        rows.const_data_ptr<std::int64_t>() + row * rows.size(1), length);
    found.mutable_data_ptr<bool>()[row] = strings_->end(tokens);
  }
  return ends.logical_or_(found.to(ends.device()));
}

}  // namespace accelerate::detail
