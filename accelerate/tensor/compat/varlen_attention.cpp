#include "accelerate/tensor/compat/varlen_attention.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_fused_sdp_choice.h>

namespace accelerate::compat {
namespace {

// As autocast casts the arguments of LibTorch's operator.
at::Tensor as_cast(const at::Tensor& tokens) {
  if (!at::autocast::is_autocast_enabled(at::kCUDA) || tokens.scalar_type() == at::kDouble)
    return tokens;
  return tokens.to(at::autocast::get_autocast_dtype(at::kCUDA));
}

// What LibTorch would take for one row of all tokens. It knows the device, dtypes, dimensions and
// the user's switches.
at::SDPBackend chosen_for(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const VarlenAttentionOptions& options) {
  const auto as_row = [](const at::Tensor& tokens) { return tokens.unsqueeze(0).transpose(1, 2); };
  return static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(as_row(query), as_row(key), as_row(value), {}, options.dropout,
                            /*is_causal=*/false, options.scale, query.size(1) != key.size(1)));
}

// cuDNN, which LibTorch prefers on some devices, is not called by this file. Flash attention takes
// what cuDNN takes.
bool is_for_flash(at::SDPBackend chosen) {
  return chosen == at::SDPBackend::flash_attention ||
         (chosen == at::SDPBackend::cudnn_attention && at::globalContext().userEnabledFlashSDP());
}

at::Tensor repeat_heads(const at::Tensor& tokens, std::int64_t heads) {
  return tokens.size(1) == heads ? tokens : tokens.repeat_interleave(heads / tokens.size(1), 1);
}

at::Tensor by_flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const SequenceBounds& queries, const SequenceBounds& keys,
                    const VarlenAttentionOptions& options) {
  return std::get<0>(at::_flash_attention_forward(
      query, key, value, queries.starts, keys.starts, queries.longest, keys.longest,
      options.dropout, options.is_causal, /*return_debug_mask=*/false, options.scale));
}

at::Tensor by_memory_efficient(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const SequenceBounds& queries,
                               const SequenceBounds& keys, const VarlenAttentionOptions& options) {
  constexpr std::int64_t kNoMask = 0, kCausalFromTopLeft = 1;
  const bool keeps_sums = at::GradMode::is_enabled() &&
                          (query.requires_grad() || key.requires_grad() || value.requires_grad());
  return std::get<0>(at::_efficient_attention_forward(
                         query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), {},
                         queries.starts, keys.starts, queries.longest, keys.longest,
                         options.dropout, options.is_causal ? kCausalFromTopLeft : kNoMask,
                         keeps_sums, options.scale))
      .squeeze(0);
}

}  // namespace

std::optional<at::Tensor> varlen_attention(const at::Tensor& given_query,
                                           const at::Tensor& given_key,
                                           const at::Tensor& given_value,
                                           const SequenceBounds& queries,
                                           const SequenceBounds& keys,
                                           const VarlenAttentionOptions& options) {
  if (!given_query.is_cuda()) return std::nullopt;
  const at::Tensor query = as_cast(given_query), key = as_cast(given_key),
                   value = as_cast(given_value);
  if (query.scalar_type() != key.scalar_type() || query.scalar_type() != value.scalar_type())
    return std::nullopt;
  constexpr std::int64_t kFlashUnit =
      8;  // LibTorch's operator pads others; its kernel refuses them.
  if (at::isReducedFloatingType(query.scalar_type()) && query.size(2) % kFlashUnit == 0 &&
      is_for_flash(chosen_for(query, key, value, options)))
    return by_flash(query, key, value, queries, keys, options);
  const at::Tensor all_keys = repeat_heads(key, query.size(1)),
                   all_values = repeat_heads(value, query.size(1));
  if (chosen_for(query, all_keys, all_values, options) == at::SDPBackend::efficient_attention)
    return by_memory_efficient(query, all_keys, all_values, queries, keys, options);
  return std::nullopt;
}

}  // namespace accelerate::compat
