#include "accelerate/transformers/models/layers/bernoulli_mask.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "accelerate/base/machine/hardware.h"

namespace accelerate::detail {
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
