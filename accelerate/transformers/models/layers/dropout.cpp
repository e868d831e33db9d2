#include "accelerate/transformers/models/layers/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "accelerate/tensor/compat/interception.h"
#include "accelerate/transformers/models/layers/kernels/kernels.h"

namespace accelerate::detail {
namespace {

// to[i] = from[i] · (keep[i] ? factor : 0)
template <typename T>
void scale_by(at::opmath_type<T> factor, const T* from, const bool* keep, std::int64_t count,
              T* to) {
  using Wide = at::opmath_type<T>;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, at::BFloat16>) {
    using enum layer_kernels::ElementType;
    const auto type = std::is_same_v<T, float> ? kFloat32 : kBFloat16;
    layer_kernels::loops().scale[type](
        {from, keep, factor, to, static_cast<layer_kernels::Size>(count)});
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(static_cast<Wide>(from[i]) * (keep[i] ? factor : Wide{0}));
  }
}

template <typename T>
void scale_kept(const T* from, const bool* keep, double share, std::int64_t count, T* to) {
  using Wide = at::opmath_type<T>;
  // Rounded as LibTorch rounds its factors.
  const auto factor = static_cast<Wide>(static_cast<T>(Wide{1} / static_cast<Wide>(share)));
  constexpr std::int64_t kGrain = 1 << 15;
  at::parallel_for(0, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
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
    const compat::WithoutInterception unseen;  // It writes without an operator.
    context->save_for_backward({mask});
    context->saved_data["share"] = share;
    return kept(input, mask, share);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor mask = context->get_saved_variables()[0];
    return {apply(gradients[0], mask, context->saved_data["share"].toDouble()), {}, {}};
  }
};

}  // namespace

at::Tensor dropout_of(const at::Tensor& input, double p, bool training) {
  const bool is_ours = input.device().is_cpu() && input.is_floating_point() && p > 0 && p < 1;
  if (!training || !is_ours) return at::dropout(input, p, training);
  return Kept::apply(input, bernoulli_mask(input, 1 - p), 1 - p);
}

at::Tensor kept_of_dropout(const at::Tensor& input, const at::Tensor& mask, double share) {
  return Kept::apply(input, mask, share);
}

namespace {

using layer_kernels::kRound;
using layer_kernels::Word;

// Makes many rounds, and then compares their words: threads share the second part, which takes more
// than two thirds of the time. One thread makes few, which stay in its first-level cache. Even the
// many are too few for memory that malloc() would give back.
void draw(at::mt19937_data_pod& generator, std::uint64_t limit, bool* keep, std::int64_t count) {
  const std::int64_t most_rounds = at::get_num_threads() > 1 ? 48 : 12, round = kRound;
  // The present round, and those that follow. The words before `taken` are used up.
  const auto words =
      std::make_unique_for_overwrite<Word[]>(static_cast<std::size_t>((most_rounds + 1) * round));
  std::copy(generator.state_.begin(), generator.state_.end(), words.get());
  std::int64_t taken = round + 1 - generator.left_;
  while (count > 0) {
    const std::int64_t missing = taken + 2 * count - round;
    const auto rounds = std::clamp<std::int64_t>((missing + round - 1) / round, 0, most_rounds);
    for (std::int64_t i = 0; i < rounds; ++i) layer_kernels::loops().twist(&words[i * round]);
    const std::int64_t pairs = std::min(count, ((rounds + 1) * round - taken) / 2);
    constexpr std::int64_t kGrain = 1 << 13;
    at::parallel_for(0, pairs, kGrain, [&](std::int64_t begin, std::int64_t end) {
      layer_kernels::loops().compare(words.get() + taken + 2 * begin,
                                     static_cast<layer_kernels::Size>(end - begin), limit,
                                     keep + begin);
    });
    keep += pairs;
    count -= pairs;
    taken += 2 * pairs - rounds * round;
    std::copy_n(words.get() + rounds * round, round, words.get());
  }
  std::copy_n(words.get(), round, generator.state_.begin());
  generator.left_ = static_cast<int>(round + 1 - taken);
  generator.next_ = static_cast<Word>(taken);
}

}  // namespace

at::Tensor bernoulli_mask(const at::Tensor& like, double p) {
  const compat::WithoutInterception unseen;  // It writes without an operator.
  at::Tensor mask = at::empty_like(like, like.options().dtype(at::kBool));
  if (mask.numel() == 0) return mask;
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(generator->mutex_);
  at::mt19937 engine = generator->engine();
  at::mt19937_data_pod state = engine.data();
  const auto limit = static_cast<std::uint64_t>(std::ceil(std::ldexp(p, 53)));
  draw(state, limit, mask.mutable_data_ptr<bool>(), mask.numel());
  engine.set_data(state);
  generator->set_engine(engine);
  return mask;
}

}  // namespace accelerate::detail
