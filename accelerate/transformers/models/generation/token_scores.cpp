#include "accelerate/transformers/models/generation/token_scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace accelerate::detail {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

ScoreSteps::ScoreSteps(const GenerationConfig& config, std::int64_t prompt_length,
                       at::Tensor first_tokens)
    : first_tokens_(std::move(first_tokens)),
      repetition_penalty_(*config.repetition_penalty),
      least_length_(config.min_new_tokens ? prompt_length + *config.min_new_tokens
                                          : *config.min_length) {
  if (config.eos_token_id) end_tokens_ = at::tensor(*config.eos_token_id, at::kLong);
  if (!*config.do_sample) return;
  temperature_ = *config.temperature;
  top_k_ = *config.top_k;
  top_p_ = *config.top_p;
  // If a beam ends, another token must be left with which it can go on.
  if (*config.num_beams > 1) least_kept_ = end_tokens_.defined() ? end_tokens_.numel() + 1 : 2;
}

at::Tensor ScoreSteps::operator()(const at::Tensor& ids, at::Tensor scores) const {
  if (repetition_penalty_ != 1) scores = penalise_repetition(ids, scores);
  if (end_tokens_.defined() && ids.size(1) < least_length_) {
    const at::Tensor words = at::arange(scores.size(1), ids.options());
    scores = scores.masked_fill(at::isin(words, end_tokens_.to(ids.device())), kNever);
  }
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

}  // namespace accelerate::detail
