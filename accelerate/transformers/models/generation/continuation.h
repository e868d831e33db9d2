// Rows that grow token by token: what sampling and beam search have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/config/generation_config.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate::detail {

// When a row that is being generated ends.

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

// Changes the scores of the next token before a token is chosen.

/// The steps that a configuration asks for, in Transformers' order: repetition penalty, n-grams that
/// may not come twice, least lengths, forced tokens and, if tokens are drawn, temperature, top-k and
/// top-p. Source: `logits_process.py` of
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
  [[nodiscard]] at::Tensor without_repeated(const at::Tensor& ids, const at::Tensor& scores) const;
  [[nodiscard]] at::Tensor keep_top_k(const at::Tensor& scores) const;
  [[nodiscard]] at::Tensor keep_top_p(const at::Tensor& scores) const;

  at::Tensor first_tokens_, end_tokens_, forced_first_, forced_last_;
  double repetition_penalty_, temperature_ = 1, top_p_ = 1;
  std::int64_t least_length_, max_length_, ngram_, top_k_ = 0, least_kept_ = 1;
};

/// A decoder, and the state that it needs to continue its rows.
class Continuation {
 public:
  /// mask: int64 {rows, tokens}, 0 at padding; undefined without any. encoder_outputs: {rows, tokens,
  /// H} of an encoder-decoder model, whose text the mask then describes; else undefined.
  Continuation(TextModel& model, at::Tensor mask, bool uses_cache, at::Tensor encoder_outputs = {});

  /// Returns the scores, fp32 {rows, words}, of the token that follows `ids`, {rows, tokens}. With
  /// a cache, a call computes only the tokens that are new since the call before.
  [[nodiscard]] at::Tensor next_scores(const at::Tensor& ids);
  /// Makes row i continue from row `rows[i]`. rows: int64 {new rows}.
  void select_rows(const at::Tensor& rows);

 private:
  [[nodiscard]] TextInputs inputs_of(const at::Tensor& ids, std::int64_t past);

  TextModel& model_;
  at::Tensor mask_, positions_;  // {rows, tokens} both; undefined without padding.
  at::Tensor encoder_outputs_;
  std::optional<std::int64_t> longest_short_;  // As DecoderModel says.
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
