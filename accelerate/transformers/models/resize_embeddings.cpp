// PreTrainedModel::resize_token_embeddings().
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/randn.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {
namespace {

// Draws rows around the mean of the old rows, so close to it that new tokens take nothing from the
// probabilities of old tokens. Source: Hewitt, "Initializing New Word Embeddings", 2021.
at::Tensor rows_around_the_mean(const at::Tensor& old, std::int64_t count) {
  constexpr double kSpread = 1e-9;
  const at::Tensor values = old.to(at::kFloat);
  const at::Tensor mean = values.mean(0), centred = values - mean;
  const at::Tensor covariance =
      kSpread * (centred.t().mm(centred) / static_cast<double>(old.size(0)));
  const auto [factor, info] = at::linalg_cholesky_ex(covariance);
  if (info.item<int>() != 0) return mean.expand({count, -1}).to(old.scalar_type());
  const at::Tensor noise = at::randn({count, old.size(1)}, values.options());
  return (mean + noise.mm(factor.t())).to(old.scalar_type());
}

// Resizes `weight`, {rows, H} or {rows}, in place, so that modules that share it see the new rows.
void resize_rows(const at::Tensor& weight, std::int64_t rows, const at::Tensor& added) {
  const std::int64_t kept = std::min(rows, weight.size(0));
  const at::Tensor values = weight.detach().narrow(0, 0, kept);
  compat::materialise_(weight, added.defined() ? at::cat({values, added}) : values.clone());
}

}  // namespace

void PreTrainedModel::resize_token_embeddings(std::int64_t tokens, const ResizeOptions& options) {
  if (options.pad_to_multiple_of) {
    const std::int64_t step = *options.pad_to_multiple_of;
    if (step < 1) {
      throw UsageError("pad_to_multiple_of is " + std::to_string(step) +
                       "; allowed are 1 and more");
    }
    tokens = (tokens + step - 1) / step * step;
  }
  if (tokens < 1) {
    throw UsageError("the vocabulary would have " + std::to_string(tokens) +
                     " tokens; allowed are 1 and more");
  }
  const at::NoGradGuard no_grad;
  auto words = input_embeddings();
  if (words->weight.is_meta())
    throw UsageError(name() + " has no memory yet: resize embeddings once its weights are there");
  const double deviation = usual_deviation();
  // Resizes `weight`. `fresh` is the weight of a new layer, as Python would make it.
  const auto resize = [&](const at::Tensor& weight, const at::Tensor& fresh) {
    const std::int64_t rows = weight.size(0), added = tokens - rows;
    if (added <= 0) return resize_rows(weight, tokens, {});
    if (options.mean_resizing) {
      const at::Tensor values =
          rows_around_the_mean(weight.detach().view({weight.size(0), -1}), added);
      return resize_rows(weight, tokens, weight.dim() == 1 ? values.squeeze(1) : values);
    }
    weight.dim() == 1 ? fresh.zero_() : fresh.normal_(0, deviation);
    resize_rows(weight, tokens, fresh.narrow(0, rows, added));
  };
  if (words->weight.size(0) != tokens) {
    // Drawn even if it is not used, so that the generator advances as Python's does.
    const torch::nn::Embedding fresh(tokens, words->weight.size(1));
    resize(words->weight, fresh->weight.to(words->weight.options()));
  }
  words->options.num_embeddings(tokens);
  if (words->options.padding_idx().value_or(0) >= tokens) words->options.padding_idx(std::nullopt);
  auto scores = output_embeddings();
  if (!scores.is_empty() && scores->weight.size(0) != tokens) {
    const bool has_bias = scores->bias.defined();
    const detail::Linear fresh(scores->weight.size(1), tokens, has_bias);
    resize(scores->weight, fresh->weight.to(scores->weight.options()));
    if (has_bias) resize(scores->bias, fresh->bias.to(scores->bias.options()));
    scores->options.out_features(tokens);
  } else if (!scores.is_empty() && scores->bias.defined() && scores->bias.size(0) != tokens) {
    resize(scores->bias, at::empty({tokens}, scores->bias.options().requires_grad(false)));
  }
  const at::Tensor second = second_output_bias();
  if (second.defined() && second.size(0) != tokens)
    compat::materialise_(second, scores->bias.detach().clone());
  resize_offsets(tokens);
  for (const auto& module : modules()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(module.get()))
      model->config_.set("vocab_size", tokens);
  }
  tie_weights();
}

}  // namespace accelerate
