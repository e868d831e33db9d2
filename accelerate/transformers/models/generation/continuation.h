// Rows that grow token by token: what sampling and beam search have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "accelerate/transformers/models/architectures/causal_decoder.h"
#include "accelerate/transformers/models/generation/stopping.h"
#include "accelerate/transformers/models/generation/token_scores.h"

namespace accelerate::detail {

/// A decoder, and the state that it needs to continue its rows.
class Continuation {
 public:
  /// mask: int64 {rows, tokens}, 0 at padding; undefined without any.
  Continuation(DecoderForCausalLM& model, at::Tensor mask, bool uses_cache);

  /// Returns the scores, fp32 {rows, words}, of the token that follows `ids`, {rows, tokens}. With
  /// a cache, a call computes only the tokens that are new since the call before.
  [[nodiscard]] at::Tensor next_scores(const at::Tensor& ids);
  /// Makes row i continue from row `rows[i]`. rows: int64 {new rows}.
  void select_rows(const at::Tensor& rows);

 private:
  DecoderForCausalLM& model_;
  at::Tensor mask_, positions_;  // {rows, tokens} both; undefined without padding.
  std::shared_ptr<KeyValueCache> cache_;
};

/// What sample() and beam_search() need besides ids and scores. Their ids, int64 {rows, tokens},
/// have one row for each row that is returned or kept as a beam.
struct Search {
  const GenerationConfig& config;  ///< With all defaults.
  ScoreSteps steps;
  Stopping stopping;
};

/// Called with the new tokens, int64 {rows} on the CPU.
using OnTokens = std::function<void(const at::Tensor& tokens)>;

/// Appends tokens until all rows have ended: each time the likeliest token, or a drawn one. scores:
/// of the first new token. Returns `ids` with the new tokens. Source: `_sample` of Transformers.
[[nodiscard]] at::Tensor sample(Continuation& continuation, at::Tensor ids, at::Tensor scores,
                                const Search& search, const OnTokens& on_tokens);

/// Keeps num_beams continuations of each row. ids, scores: {rows · num_beams, …}, the copies of a
/// row one after the other. Returns {rows · num_return_sequences, tokens}, the best of each row
/// first. Source: `_beam_search` of Transformers.
[[nodiscard]] at::Tensor beam_search(Continuation& continuation, const at::Tensor& ids,
                                     at::Tensor scores, const Search& search);

}  // namespace accelerate::detail
