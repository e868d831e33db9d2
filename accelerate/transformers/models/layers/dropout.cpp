#include "accelerate/transformers/models/layers/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "accelerate/base/machine/hardware.h"

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

}  // namespace

at::Tensor dropout_of(const at::Tensor& input, double p, bool training) {
  const bool is_ours = input.device().is_cpu() && input.is_floating_point() && p > 0 && p < 1;
  if (!training || !is_ours) return at::dropout(input, p, training);
  return Kept::apply(input, bernoulli_mask(input, 1 - p), 1 - p);
}

namespace {

#if defined(__x86_64__)
using Word = std::uint32_t;
constexpr std::size_t kState = at::MERSENNE_STATE_N, kShift = at::MERSENNE_STATE_M;

// A register of AVX2.
using Words = Word __attribute__((vector_size(32)));
constexpr std::size_t kWords = sizeof(Words) / sizeof(Word);

template <typename T>
ACCELERATE_AVX2 inline void load(const Word* from, T& to) {
  std::memcpy(&to, from, sizeof to);
}

template <typename T>
ACCELERATE_AVX2 inline void twist_at(Word* state, const Word* shifted) {
  T high, low, other;
  load(state, high);
  load(state + 1, low);
  load(shifted, other);
  const T bits = (high & at::UMASK) | (low & at::LMASK);
  const T next = other ^ (bits >> 1) ^ ((Word{0} - (low & Word{1})) & at::MATRIX_A);
  std::memcpy(state, &next, sizeof next);
}

// Makes the next words of the generator, eight at a time: what a word needs from this round was
// written 227 words before. Source: Matsumoto and Nishimura 1998, MT19937.
ACCELERATE_AVX2 inline void twist(Word* state) {
  constexpr std::size_t kEarly = kState - kShift;
  std::size_t i = 0;
  for (; i + kWords <= kEarly; i += kWords) twist_at<Words>(state + i, state + i + kShift);
  for (; i < kEarly; ++i) twist_at<Word>(state + i, state + i + kShift);
  for (; i + kWords < kState; i += kWords) twist_at<Words>(state + i, state + i - kEarly);
  for (; i + 1 < kState; ++i) twist_at<Word>(state + i, state + i - kEarly);
  const Word pair[] = {state[kState - 1], state[0]};
  Word last[] = {pair[0], pair[1]};
  twist_at<Word>(last, state + kShift - 1);
  state[kState - 1] = last[0];
}

template <typename T>
ACCELERATE_AVX2 inline void temper_at(const Word* from, Word* to) {
  T word;
  load(from, word);
  word ^= word >> 11;
  word ^= (word << 7) & Word{0x9d2c5680};
  word ^= (word << 15) & Word{0xefc60000};
  word ^= word >> 18;
  std::memcpy(to, &word, sizeof word);
}

ACCELERATE_AVX2 inline void temper(const Word* from, std::size_t count, Word* to) {
  std::size_t i = 0;
  for (; i + kWords <= count; i += kWords) temper_at<Words>(from + i, to + i);
  for (; i < count; ++i) temper_at<Word>(from + i, to + i);
}

// Sets keep[i] to whether a number of 53 bits is below `limit`. LibTorch makes such a number of two
// words, for a double in [0, 1).
ACCELERATE_AVX2 inline void compare(const Word* words, std::size_t count, std::uint64_t limit,
                                    bool* keep) {
  constexpr Word kHighBits = (Word{1} << 21) - 1;
  const Word high = static_cast<Word>(limit >> 32), low = static_cast<Word>(limit);
  std::size_t i = 0;
  for (; i + kWords <= count; i += kWords) {
    Words a, b;
    load(words + 2 * i, a);
    load(words + 2 * i + kWords, b);
    const Words first = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) & kHighBits;
    const Words second = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    const auto is_below = (first < high) | ((first == high) & (second < low));
    using Bytes = std::uint8_t __attribute__((vector_size(kWords)));
    const Bytes bytes = __builtin_convertvector(is_below, Bytes) & std::uint8_t{1};
    std::memcpy(keep + i, &bytes, sizeof bytes);
  }
  for (; i < count; ++i) {
    const Word first = words[2 * i] & kHighBits;
    keep[i] = first < high || (first == high && words[2 * i + 1] < low);
  }
}

ACCELERATE_AVX2 void draw(at::mt19937_data_pod& generator, std::uint64_t limit, bool* keep,
                          std::size_t count) {
  std::array<Word, kState + 1> words;  // One of a pair may be left from the round before.
  std::size_t have = 0;
  while (count > 0) {
    if (generator.left_ == 1) {
      twist(generator.state_.data());
      generator.left_ = kState + 1;
      generator.next_ = 0;
    }
    const auto taken = std::min(static_cast<std::size_t>(generator.left_) - 1, 2 * count - have);
    temper(generator.state_.data() + generator.next_, taken, words.data() + have);
    generator.next_ += static_cast<Word>(taken);
    generator.left_ -= static_cast<int>(taken);
    have += taken;
    compare(words.data(), have / 2, limit, keep);
    keep += have / 2;
    count -= have / 2;
    if (have % 2 == 1) words[0] = words[have - 1];
    have %= 2;
  }
}

bool can_draw() {
  return has_avx2();
}
#else
void draw(at::mt19937_data_pod&, std::uint64_t, bool*, std::size_t) {}
bool can_draw() {
  return false;
}
#endif

}  // namespace

at::Tensor bernoulli_mask(const at::Tensor& like, double p) {
  at::Tensor mask = at::empty_like(like, like.options().dtype(at::kBool));
  if (!can_draw()) return mask.bernoulli_(p);
  auto* generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(generator->mutex_);
  at::mt19937 engine = generator->engine();
  at::mt19937_data_pod state = engine.data();
  const auto limit = static_cast<std::uint64_t>(std::ceil(std::ldexp(p, 53)));
  draw(state, limit, mask.mutable_data_ptr<bool>(), static_cast<std::size_t>(mask.numel()));
  engine.set_data(state);
  generator->set_engine(engine);
  return mask;
}

}  // namespace accelerate::detail
