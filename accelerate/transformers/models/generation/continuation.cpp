#include "accelerate/transformers/models/generation/continuation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <limits>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/layers/key_value_cache.h"

namespace accelerate::detail {

Continuation::Continuation(TextModel& model, at::Tensor mask, bool uses_cache,
                           at::Tensor encoder_outputs)
    : model_(model), mask_(std::move(mask)), encoder_outputs_(std::move(encoder_outputs)) {
  if (uses_cache) cache_ = std::make_shared<KeyValueCache>();
  if (const auto* causal = dynamic_cast<const CausalLM*>(&model))
    longest_short_ = causal->longest_short_text();
  if (mask_.defined() && !encoder_outputs_.defined())
    positions_ = (mask_.cumsum(1) - 1).masked_fill(mask_.eq(0), 0);
}

// Returns the inputs of a call over the tokens behind `past`.
TextInputs Continuation::inputs_of(const at::Tensor& ids, std::int64_t past) {
  const std::int64_t added = ids.size(1) - past;
  const at::Tensor new_ids = ids.narrow(1, past, added);
  if (encoder_outputs_.defined())
    return {.attention_mask = mask_,
            .decoder_input_ids = new_ids,
            .encoder_outputs = encoder_outputs_,
            .past_key_values = cache_,
            .logits_to_keep = 1};
  TextInputs inputs{.input_ids = new_ids, .past_key_values = cache_, .logits_to_keep = 1};
  if (!mask_.defined()) return inputs;
  for (std::int64_t known = mask_.size(1); known < ids.size(1); ++known) {
    mask_ = at::cat({mask_, at::ones({mask_.size(0), 1}, mask_.options())}, 1);
    positions_ = at::cat({positions_, positions_.narrow(1, known - 1, 1) + 1}, 1);
  }
  inputs.attention_mask = mask_;
  inputs.position_ids = positions_.narrow(1, past, added);
  // Behind a prompt that ends with padding they begin again.
  inputs.position_ids_tell_sequences = false;
  return inputs;
}

at::Tensor Continuation::next_scores(const at::Tensor& ids) {
  if (cache_ != nullptr && longest_short_ && ids.size(1) > *longest_short_ &&
      cache_->length() <= *longest_short_)
    cache_ = std::make_shared<KeyValueCache>();  // The keys of all tokens change.
  const TextInputs inputs = inputs_of(ids, cache_ == nullptr ? 0 : cache_->length());
  return model_.forward(inputs).logits.select(1, 0).to(at::kFloat);
}

void Continuation::select_rows(const at::Tensor& rows) {
  if (mask_.defined()) mask_ = mask_.index_select(0, rows);
  if (positions_.defined()) positions_ = positions_.index_select(0, rows);
  if (cache_ != nullptr) return cache_->select_rows(rows);
  if (encoder_outputs_.defined()) encoder_outputs_ = encoder_outputs_.index_select(0, rows);
}

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

ScoreSteps::ScoreSteps(const GenerationConfig& config, std::int64_t prompt_length,
                       at::Tensor first_tokens)
    : first_tokens_(std::move(first_tokens)),
      repetition_penalty_(*config.repetition_penalty),
      least_length_(config.min_new_tokens ? prompt_length + *config.min_new_tokens
                                          : *config.min_length),
      max_length_(*config.max_length),
      ngram_(*config.no_repeat_ngram_size) {
  if (config.forced_bos_token_id) forced_first_ = at::tensor({*config.forced_bos_token_id});
  if (config.forced_eos_token_id) forced_last_ = at::tensor(*config.forced_eos_token_id, at::kLong);
  if (config.eos_token_id) end_tokens_ = at::tensor(*config.eos_token_id, at::kLong);
  if (!*config.do_sample) return;
  temperature_ = *config.temperature;
  top_k_ = *config.top_k;
  top_p_ = *config.top_p;
  // If a beam ends, another token must be left with which it can continue.
  if (*config.num_beams > 1) least_kept_ = end_tokens_.defined() ? end_tokens_.numel() + 1 : 2;
}

at::Tensor ScoreSteps::operator()(const at::Tensor& ids, at::Tensor scores) const {
  const auto only = [&](const at::Tensor& tokens) {
    return at::full_like(scores, kNever).index_fill(1, tokens.to(scores.device()), 0);
  };
  if (repetition_penalty_ != 1) scores = penalise_repetition(ids, scores);
  if (ngram_ > 0 && ids.size(1) >= ngram_) scores = without_repeated(ids, scores);
  if (end_tokens_.defined() && ids.size(1) < least_length_) {
    // Looking for each word among the end tokens would take longer than a small model's layers.
    const at::Tensor is_word = end_tokens_.ge(0).logical_and(end_tokens_ < scores.size(1));
    scores = scores.index_fill(1, end_tokens_.masked_select(is_word).to(ids.device()), kNever);
  }
  if (forced_first_.defined() && ids.size(1) == 1) scores = only(forced_first_);
  if (forced_last_.defined() && ids.size(1) == max_length_ - 1) scores = only(forced_last_);
  if (temperature_ != 1) scores = scores / temperature_;
  if (top_k_ != 0) scores = keep_top_k(scores);
  if (top_p_ < 1) scores = keep_top_p(scores);
  return scores;
}

at::Tensor ScoreSteps::penalise_repetition(const at::Tensor& ids, const at::Tensor& scores) const {
  const std::int64_t words = scores.size(1);
  at::Tensor seen = ids.clamp_max(words);
  if (first_tokens_.defined()) {
    const at::Tensor places = at::arange(ids.size(1), ids.options()).unsqueeze(0);
    seen = seen.masked_fill(places < first_tokens_.unsqueeze(1), words);
  }
  // Places without a word use a spare column, which is removed at the end.
  const at::Tensor with_spare = at::constant_pad_nd(scores, {0, 1});
  const at::Tensor found = at::gather(with_spare, 1, seen);
  const at::Tensor penalised =
      at::where(found < 0, found * repetition_penalty_, found / repetition_penalty_);
  return at::scatter(with_spare, 1, seen, penalised).narrow(1, 0, words);
}

at::Tensor ScoreSteps::without_repeated(const at::Tensor& ids, const at::Tensor& scores) const {
  const std::int64_t words = scores.size(1);
  const at::Tensor windows = ids.unfold(1, ngram_, 1);  // {rows, windows, n}
  const at::Tensor last = ids.narrow(1, ids.size(1) + 1 - ngram_, ngram_ - 1).unsqueeze(1);
  const at::Tensor is_same = windows.narrow(2, 0, ngram_ - 1).eq(last).all(-1);
  // Windows that differ use a spare column, which is removed at the end.
  const at::Tensor completes =
      at::where(is_same, windows.select(2, ngram_ - 1).clamp_max(words), words);
  const at::Tensor banned = at::zeros({scores.size(0), words + 1}, ids.options().dtype(at::kBool))
                                .scatter(1, completes, true);
  return scores.masked_fill(banned.narrow(1, 0, words), kNever);
}

at::Tensor ScoreSteps::keep_top_k(const at::Tensor& scores) const {
  const std::int64_t kept = std::min(std::max(top_k_, least_kept_), scores.size(1));
  const at::Tensor best = std::get<0>(at::topk(scores, kept));
  return scores.masked_fill(scores < best.narrow(1, kept - 1, 1), kNever);
}

at::Tensor ScoreSteps::keep_top_p(const at::Tensor& scores) const {
  const auto [sorted, places] = at::sort(scores, /*dim=*/-1, /*descending=*/false);
  const at::Tensor removed = at::cumsum(at::softmax(sorted, -1), -1) <= 1 - top_p_;
  const std::int64_t kept = std::min(least_kept_, scores.size(1));
  removed.narrow(1, scores.size(1) - kept, kept).fill_(false);
  return scores.masked_fill(at::scatter(removed, 1, places, removed), kNever);
}

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
