// Changes the scores of the next token before a token is chosen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accelerate/transformers/models/config/generation_config.h"

namespace accelerate::detail {

/// The steps that a configuration asks for, in Transformers' order: repetition penalty, least
/// lengths and, if tokens are drawn, temperature, top-k and top-p. Source: `logits_process.py` of
/// Transformers.
class ScoreSteps {
 public:
  /// `config`: with all defaults. `first_tokens`: int64 {rows}, where each row's prompt begins
  /// after its padding; undefined without padding.
  ScoreSteps(const GenerationConfig& config, std::int64_t prompt_length, at::Tensor first_tokens);

  /// ids: int64 {rows, tokens}; scores: fp32 {rows, words}, of the next token. Returns new scores.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& ids, at::Tensor scores) const;

 private:
  [[nodiscard]] at::Tensor penalise_repetition(const at::Tensor& ids,
                                               const at::Tensor& scores) const;
  [[nodiscard]] at::Tensor keep_top_k(const at::Tensor& scores) const;
  [[nodiscard]] at::Tensor keep_top_p(const at::Tensor& scores) const;

  at::Tensor first_tokens_, end_tokens_;
  double repetition_penalty_, temperature_ = 1, top_p_ = 1;
  std::int64_t least_length_, top_k_ = 0, least_kept_ = 1;
};

}  // namespace accelerate::detail
