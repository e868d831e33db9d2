#include "accelerate/transformers/models/generation/continuation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>

#include <utility>

#include "accelerate/transformers/models/layers/key_value_cache.h"

namespace accelerate::detail {

Continuation::Continuation(DecoderForCausalLM& model, at::Tensor mask, bool uses_cache)
    : model_(model), mask_(std::move(mask)) {
  if (uses_cache) cache_ = std::make_shared<KeyValueCache>();
  if (mask_.defined()) positions_ = (mask_.cumsum(1) - 1).masked_fill(mask_.eq(0), 0);
}

at::Tensor Continuation::next_scores(const at::Tensor& ids) {
  TextInputs inputs{.past_key_values = cache_, .logits_to_keep = 1};
  const std::int64_t past = cache_ == nullptr ? 0 : cache_->length(), added = ids.size(1) - past;
  inputs.input_ids = ids.narrow(1, past, added);
  if (mask_.defined()) {
    for (std::int64_t known = mask_.size(1); known < ids.size(1); ++known) {
      mask_ = at::cat({mask_, at::ones({mask_.size(0), 1}, mask_.options())}, 1);
      positions_ = at::cat({positions_, positions_.narrow(1, known - 1, 1) + 1}, 1);
    }
    inputs.attention_mask = mask_;
    inputs.position_ids = positions_.narrow(1, past, added);
  }
  return model_.forward(inputs).logits.select(1, 0).to(at::kFloat);
}

void Continuation::select_rows(const at::Tensor& rows) {
  if (mask_.defined()) {
    mask_ = mask_.index_select(0, rows);
    positions_ = positions_.index_select(0, rows);
  }
  if (cache_ != nullptr) cache_->select_rows(rows);
}

}  // namespace accelerate::detail
