// Rows that grow by a token: what sampling and beam search have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "accelerate/models/architectures/decoder.h"
#include "accelerate/models/generation/scores.h"
#include "accelerate/models/generation/stopping.h"

namespace accelerate::detail {

/// A decoder at the end of its rows.
class Continuation {
 public:
  /// mask: int64 {rows, tokens}, 0 at padding; undefined without any.
  Continuation(DecoderForCausalLM& model, at::Tensor mask, bool uses_cache);

  /// The scores, fp32 {rows, words}, of what follows `ids`, {rows, tokens}. With a cache each call
  /// computes what is behind the tokens of the one before.
  [[nodiscard]] at::Tensor next_scores(const at::Tensor& ids);
  /// Row i goes on from row `rows[i]`, int64 {new rows}.
  void select_rows(const at::Tensor& rows);

 private:
  DecoderForCausalLM& model_;
  at::Tensor mask_, positions_;  // {rows, tokens} both; undefined without padding.
  std::shared_ptr<KeyValueCache> cache_;
};

/// What the searches take: int64 {rows, tokens}, a row for each that is returned or kept as a beam.
struct Search {
  const GenerationConfig& config;  ///< With all defaults.
  ScoreSteps steps;
  Stopping stopping;
};

/// Called with the new tokens, int64 {rows} on the CPU.
using OnTokens = std::function<void(const at::Tensor& tokens)>;

/// The likeliest token, or one that is drawn, again and again. scores: of the first new token.
/// Returns ids with the new tokens behind. Source: `_sample` of Transformers.
[[nodiscard]] at::Tensor sample(Continuation& continuation, at::Tensor ids, at::Tensor scores,
                                const Search& search, const OnTokens& on_tokens);

/// Keeps num_beams continuations of each row. ids, scores: {rows · num_beams, …}, each row so often
/// in turn. Returns {rows · num_return_sequences, tokens}, the best of each row first. Source:
/// `_beam_search` of Transformers.
[[nodiscard]] at::Tensor beam_search(Continuation& continuation, const at::Tensor& ids,
                                     at::Tensor scores, const Search& search);

}  // namespace accelerate::detail
