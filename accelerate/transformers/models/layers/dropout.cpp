#include "accelerate/transformers/models/layers/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "accelerate/base/machine/hardware.h"
#include "accelerate/transformers/models/layers/bernoulli_mask.h"

namespace accelerate::detail {
namespace {

// to[i] = from[i] · (keep[i] ? factor : 0)
template <typename Wide, typename T>
void scale_by(Wide factor, const T* from, const bool* keep, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(static_cast<Wide>(from[i]) * (keep[i] ? factor : Wide{0}));
}

// As scale_by(), eight elements at a time.
ACCELERATE_AVX2 void scale_floats(float factor, const float* from, const bool* keep,
                                  std::int64_t count, float* to) {
  constexpr std::int64_t kLanes = 8;
  using Lanes = float __attribute__((vector_size(32)));
  using Bits = std::int32_t __attribute__((vector_size(32)));
  using Bytes = std::int8_t __attribute__((vector_size(8)));
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes values;
    Bytes kept;
    std::memcpy(&values, from + i, sizeof values);
    std::memcpy(&kept, keep + i, sizeof kept);
    values *= __builtin_convertvector(__builtin_convertvector(kept, Bits), Lanes) * factor;
    std::memcpy(to + i, &values, sizeof values);
  }
  scale_by(factor, from + i, keep + i, count - i, to + i);
}

template <typename T>
void scale_kept(const T* from, const bool* keep, double share, std::int64_t count, T* to) {
  using Wide = at::opmath_type<T>;
  // Rounded as LibTorch rounds its factors.
  const auto factor = static_cast<Wide>(static_cast<T>(Wide{1} / static_cast<Wide>(share)));
  constexpr std::int64_t kGrain = 1 << 15;
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<T, float>) {
      if (has_avx2())
        return scale_floats(factor, from + begin, keep + begin, end - begin, to + begin);
    }
    scale_by(factor, from + begin, keep + begin, end - begin, to + begin);
  });
}

at::Tensor in_layout_of(const at::Tensor& mask, const at::Tensor& tensor) {
  if (tensor.strides() == mask.strides()) return tensor;
  return at::empty_like(mask, tensor.options()).copy_(tensor);
}

// tensor · mask / share, in the layout of the mask.
at::Tensor kept(const at::Tensor& tensor, const at::Tensor& mask, double share) {
  const at::Tensor from = in_layout_of(mask, tensor);
  at::Tensor to = at::empty_like(mask, from.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, from.scalar_type(), "dropout", [&] {
    scale_kept(from.const_data_ptr<scalar_t>(), mask.const_data_ptr<bool>(), share, from.numel(),
               to.mutable_data_ptr<scalar_t>());
  });
  return to;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Kept : torch::autograd::Function<Kept> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& mask, double share) {
    context->save_for_backward({mask});
    context->saved_data["share"] = share;
    return kept(input, mask, share);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor mask = context->get_saved_variables()[0];
    return {apply(gradients[0], mask, context->saved_data["share"].toDouble()), {}, {}};
  }
};

// Works in place: memory that is freed between tensors that are kept leaves holes in the heap.
at::Tensor scores_of(const at::Tensor& query, const at::Tensor& key, double scale,
                     const at::Tensor& hidden) {
  at::Tensor scores = at::matmul(query, key.transpose(-2, -1)).mul_(scale);
  if (hidden.defined()) scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  return scores;
}

struct Attend : torch::autograd::Function<Attend> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value,
                            const DroppedAttention& spec) {
    at::Tensor weights = scores_of(query, key, spec.scale, spec.hidden);
    at::_softmax_out(weights, weights, -1, /*half_to_float=*/false);
    const at::Tensor mask = bernoulli_mask(weights, 1 - spec.p);
    context->save_for_backward({query, key, value, weights, mask});
    context->saved_data["scale"] = spec.scale;
    context->saved_data["share"] = 1 - spec.p;
    context->saved_data["hidden"] = spec.hidden;
    return at::matmul(kept(weights, mask, 1 - spec.p), value);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
    const auto saved = context->get_saved_variables();
    const at::Tensor &query = saved[0], &key = saved[1], &value = saved[2], &mask = saved[4],
                     &by = gradients[0];
    const double scale = context->saved_data["scale"].toDouble(),
                 share = context->saved_data["share"].toDouble();
    // Gradients of gradients go through the weights too.
    const at::Tensor weights =
        at::GradMode::is_enabled()
            ? at::softmax(scores_of(query, key, scale, context->saved_data["hidden"].toTensor()),
                          -1)
            : saved[3];
    variable_list results(4);
    if (context->needs_input_grad(2))
      results[2] = at::matmul(Kept::apply(weights, mask, share).transpose(-2, -1), by);
    if (!context->needs_input_grad(0) && !context->needs_input_grad(1)) return results;
    const at::Tensor by_weights = Kept::apply(at::matmul(by, value.transpose(-2, -1)), mask, share);
    const at::Tensor by_scores =
        at::_softmax_backward_data(by_weights, weights, -1, weights.scalar_type()) * scale;
    results[0] = at::matmul(by_scores, key);
    results[1] = at::matmul(by_scores.transpose(-2, -1), query);
    return results;
  }
};

}  // namespace

at::Tensor dropout_of(const at::Tensor& input, double p, bool training) {
  const bool is_ours = input.device().is_cpu() && input.is_floating_point() && p > 0 && p < 1;
  if (!training || !is_ours) return at::dropout(input, p, training);
  return Kept::apply(input, bernoulli_mask(input, 1 - p), 1 - p);
}

at::Tensor dropped_attention(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const DroppedAttention& spec) {
  return Attend::apply(query, key, value, spec);
}

}  // namespace accelerate::detail
