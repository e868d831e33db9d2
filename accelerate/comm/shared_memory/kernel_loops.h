// The loops behind kernels.h, for one instruction set: kernels_<set>.cpp includes this file and is
// compiled with the flags of that set. Everything is in an anonymous namespace, and no header with
// inline functions is included. Otherwise the linker could use a function with AVX instructions in
// the baseline.
#pragma once

#ifdef __F16C__
#include <immintrin.h>  // forced inline, never linked
#endif

#include "accelerate/comm/shared_memory/kernel_table.h"

namespace accelerate::detail {
namespace {

using U8 = unsigned char;
using I8 = signed char;
using U16 = unsigned short;
using I16 = short;
using U32 = unsigned int;
using I32 = int;
using U64 = unsigned long;
using I64 = long;
using Size = unsigned long;

constexpr Size kTileBytes = 8192;  // Two tiles and the sources' lines fit a first-level cache.

template <typename To, typename From>
To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

/// Returns yes ? a : b without a jump, which would keep g++ from vectorising the loop.
inline U32 select(bool yes, U32 a, U32 b) {
  const U32 mask = 0U - U32{yes};
  return (a & mask) | (b & ~mask);
}
// --- How elements are read and written, kLanes at a time
// A Kind has the types Element (in memory), Value (while computing) and Divisor (of a mean), and
// the functions load and store.

template <typename T, typename DivisorOfMean>
struct Plain {
  using Element = T;
  using Value = T;
  using Divisor = DivisorOfMean;
  static constexpr Size kLanes = 1;
  static Value load(const Element* from) { return *from; }
  static void store(Element* to, Value value) { *to = value; }
};
using Float = Plain<float, float>;
using Double = Plain<double, double>;
template <typename T>
using Integer = Plain<T, I64>;

struct Truth : Plain<U8, I64> {
  static Value load(const Element* from) { return *from != 0; }
};

struct BFloat16 : Plain<U16, float> {
  using Value = float;
  static Value load(const Element* from) { return bits_as<float>(U32{*from} << 16); }
  static void store(Element* to, Value value) {
    const U32 bits = bits_as<U32>(value);
    const U32 rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16;
    *to = static_cast<U16>(select(value == value, rounded, U32{0x7FC0}));
  }
};

// Converts by moving the exponent with integer arithmetic. Subnormals are normalised by a float
// subtraction.
struct Half : Plain<U16, float> {
  using Value = float;
  static Value load(const Element* from) {
    constexpr U32 kExponent = 0x7C00U << 13, kRebias = 112U << 23, kTwoToMinus14 = 113U << 23;
    const U32 bits = (*from & 0x7FFFU) << 13;
    const U32 exponent = bits & kExponent;
    const U32 moved = bits + kRebias + select(exponent == kExponent, kRebias, 0U);
    const U32 subnormal =
        bits_as<U32>(bits_as<float>(bits + kTwoToMinus14) - bits_as<float>(kTwoToMinus14));
    return bits_as<float>(select(exponent == 0, subnormal, moved) | (*from & 0x8000U) << 16);
  }
  // The addition of one half makes the float adder round a subnormal result at the right bit.
  static void store(Element* to, Value value) {
    constexpr U32 kTooLarge = 143U << 23, kSmallestNormal = 113U << 23, kOneHalf = 126U << 23;
    const U32 bits = bits_as<U32>(value) & 0x7FFFFFFF;
    const U32 subnormal = bits_as<U32>(bits_as<float>(bits) + 0.5F) - kOneHalf;
    const U32 normal = (bits - (112U << 23) + 0xFFF + ((bits >> 13) & 1)) >> 13;
    const U32 finite = select(bits < kSmallestNormal, subnormal, normal);
    const U32 special = select(value == value, U32{0x7C00}, U32{0x7E00});
    const U32 magnitude = select(bits >= kTooLarge, special, finite);
    *to = static_cast<U16>(magnitude | bits_as<U32>(value) >> 31 << 15);
  }
};

// HalfLanes converts eight or sixteen halves by one instruction; FloatLanes are as many floats in
// such a loop. The instruction would keep the payload of a NaN, which c10 does not, so store()
// replaces NaNs first.
#ifdef __AVX512F__
struct HalfLanes : Half {
  using Value = __m512;
  static constexpr Size kLanes = 16;
  // Masked, because g++ 12 warns of the unmasked conversions: its headers read an unset variable.
  static constexpr __mmask16 kAll = 0xFFFF;
  static Value load(const Element* from) {
    return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void store(Element* to, Value value) {
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i sign = _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(1 << 31));
    const __m512i quiet = _mm512_or_si512(sign, _mm512_set1_epi32(0x7FC00000));
    const __m512 clean =
        _mm512_castsi512_ps(_mm512_mask_mov_epi32(_mm512_castps_si512(value), nan, quiet));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_maskz_cvtps_ph(kAll, clean, _MM_FROUND_TO_NEAREST_INT));
  }
};
struct FloatLanes : Float {
  using Value = __m512;
  static constexpr Size kLanes = 16;
  static Value load(const Element* from) { return _mm512_loadu_ps(from); }
  static void store(Element* to, Value value) { _mm512_storeu_ps(to, value); }
};
#elif defined(__F16C__)
struct HalfLanes : Half {
  using Value = __m256;
  static constexpr Size kLanes = 8;
  static Value load(const Element* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store(Element* to, Value value) {
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256 sign = _mm256_and_ps(value, _mm256_set1_ps(-0.0F));
    const __m256 quiet = _mm256_or_ps(sign, _mm256_set1_ps(__builtin_nanf("")));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm256_cvtps_ph(_mm256_blendv_ps(value, quiet, nan), _MM_FROUND_TO_NEAREST_INT));
  }
};
struct FloatLanes : Float {
  using Value = __m256;
  static constexpr Size kLanes = 8;
  static Value load(const Element* from) { return _mm256_loadu_ps(from); }
  static void store(Element* to, Value value) { _mm256_storeu_ps(to, value); }
};
#endif

/// The Kind of the accumulator when not all sources fit in one pass.
template <typename Kind>
struct AccumulatorOf {
  using Type = Kind;
};
template <>
struct AccumulatorOf<BFloat16> {
  using Type = Float;
};
template <>
struct AccumulatorOf<Half> {
  using Type = Float;
};

/// Selects the Kinds for the bulk of a pass: Kinds with lanes if any Kind of the pass is Half.
template <typename... Kinds>
struct Bulk {
  static constexpr bool kConvertsHalf = (__is_same(Kinds, Half) || ...);
};
template <bool converts_half, typename Kind>
struct WideKind {
  using Type = Kind;
};
#ifdef __F16C__
template <>
struct WideKind<true, Half> {
  using Type = HalfLanes;
};
template <>
struct WideKind<true, Float> {
  using Type = FloatLanes;
};
#endif

// --- Operations on two values, scalars or the compiler's vectors

struct Sum {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a + b);
  }
  // Signed integers are summed only for means, also modulo 2^bits.
  static I32 apply(I32 a, I32 b) { return static_cast<I32>(U32(a) + U32(b)); }
  static I64 apply(I64 a, I64 b) { return static_cast<I64>(U64(a) + U64(b)); }
};
struct Product {
  template <typename V>
  static V apply(V a, V b) {
    if constexpr (sizeof(V) == sizeof(U16)) {
      return static_cast<V>(U32{a} * b);  // promoted to int, the product could overflow
    } else {
      return static_cast<V>(a * b);
    }
  }
};
// The first NaN wins; of equal values the first stays. Makes two choices in a row, because g++
// compiles one choice with an "or" to a jump and then does not vectorise the loop.
struct Min {
  template <typename V>
  static V apply(V a, V b) {
    const V least = b >= a ? a : b;
    return a != a ? a : least;
  }
};
struct Max {
  template <typename V>
  static V apply(V a, V b) {
    const V most = b <= a ? a : b;
    return a != a ? a : most;
  }
};
struct Band {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct Bor {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct Bxor {
  template <typename V>
  static V apply(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};

struct Keep {
  template <typename V, typename Divisor>
  static V apply(V value, Divisor) {
    return value;
  }
};
struct Divide {
  template <typename V, typename Divisor>
  static V apply(V value, Divisor divisor) {
    return static_cast<V>(value / divisor);
  }
};

// --- The loops

template <typename Op, typename Finish>
struct How {
  using Combine = Op;
  using End = Finish;
};

/// Computes elements [begin, end) of one pass. ivdep is safe: `out` may be one of the sources, but
/// then element i depends on element i only.
template <typename How, typename Out, typename First, typename Rest, typename... Pointers>
[[gnu::flatten]] void loop(Size begin, Size end, typename Out::Divisor divisor,
                           typename Out::Element* out, const typename First::Element* first,
                           const Pointers*... rest) {
#pragma GCC ivdep
  for (Size i = begin; i < end; i += Out::kLanes) {
    typename Out::Value value = First::load(first + i);
    ((value = How::Combine::apply(value, Rest::load(rest + i))), ...);
    Out::store(out + i, How::End::apply(value, divisor));
  }
}

/// Computes out[i] = first[i] op rest[i] op …
template <typename How, typename Out, typename First, typename Rest, typename... Pointers>
void pass(Size count, typename Out::Divisor divisor, typename Out::Element* out,
          const typename First::Element* first, const Pointers*... rest) {
  constexpr bool converts = Bulk<Out, First, Rest>::kConvertsHalf;
  using WideOut = typename WideKind<converts, Out>::Type;
  using WideFirst = typename WideKind<converts, First>::Type;
  using WideRest = typename WideKind<converts, Rest>::Type;
  const Size bulk = count - count % WideOut::kLanes;
  loop<How, WideOut, WideFirst, WideRest>(0, bulk, divisor, out, first, rest...);
  if constexpr (WideOut::kLanes > 1) {
    loop<How, Out, First, Rest>(bulk, count, divisor, out, first, rest...);
  }
}

/// Reduces one tile of the sources, from element `at` on. Up to four sources take one pass; more go
/// through an accumulator of the size of a tile.
template <typename Kind, typename How>
struct Tile {
  using Element = typename Kind::Element;
  using Divisor = typename Kind::Divisor;
  using Accumulator = typename AccumulatorOf<Kind>::Type;
  using Sum = typename Accumulator::Element;
  using Going = accelerate::detail::How<typename How::Combine, Keep>;
  static constexpr Size kSize = kTileBytes / sizeof(Sum);

  const KernelWork& work;
  Size at;
  Size count;

  const Element* source(Size i) const { return static_cast<const Element*>(work.sources[i]) + at; }
  Divisor divisor() const { return static_cast<Divisor>(work.num_sources); }

  /// Reduces `first` and the sources from `next` on, at most three, into `out`.
  template <typename End, typename Out, typename First>
  void last_pass(typename Out::Element* out, const typename First::Element* first,
                 Size next) const {
    switch (work.num_sources - next) {
      case 0:
        return pass<End, Out, First, Kind>(count, divisor(), out, first);
      case 1:
        return pass<End, Out, First, Kind>(count, divisor(), out, first, source(next));
      case 2:
        return pass<End, Out, First, Kind>(count, divisor(), out, first, source(next),
                                           source(next + 1));
      default:
        return pass<End, Out, First, Kind>(count, divisor(), out, first, source(next),
                                           source(next + 1), source(next + 2));
    }
  }

  void reduce_many(Element* out) const {
    Sum sum[kSize];
    pass<Going, Accumulator, Kind, Kind>(count, divisor(), sum, source(0), source(1), source(2),
                                         source(3));
    Size next = 4;
    for (; work.num_sources - next > 3; next += 3) {
      pass<Going, Accumulator, Accumulator, Kind>(count, divisor(), sum, sum, source(next),
                                                  source(next + 1), source(next + 2));
    }
    last_pass<How, Kind, Accumulator>(out, sum, next);
  }

  void reduce(Element* out) const {
    if (work.num_sources > 4) return reduce_many(out);
    last_pass<How, Kind, Kind>(out, source(0), 1);
  }
};

// Uses ordinary stores. Streaming stores of the result or its copies were slower within the cache
// and no faster beyond it. In place, where the lines are in the cache already, they halved the
// speed. Measured by `micro_collective_kernels --benchmark_filter=to_several`.
template <typename Kind, typename Op, typename Finish>
void reduce(const KernelWork& work) {
  using Work = Tile<Kind, How<Op, Finish>>;
  using Element = typename Kind::Element;
  for (Size at = 0; at < work.count; at += Work::kSize) {
    const Size left = work.count - at;
    const Size count = left < Work::kSize ? left : Work::kSize;
    Element* out = static_cast<Element*>(work.destinations[0]) + at;
    Work{work, at, count}.reduce(out);
    for (Size i = 1; i < work.num_destinations; ++i) {
      Element* copy = static_cast<Element*>(work.destinations[i]) + at;
      __builtin_memcpy(copy, out, count * sizeof(Element));
    }
  }
}

// --- The table

template <typename Kind, typename Op>
constexpr ReduceLoop kLoop = reduce<Kind, Op, Keep>;

#define ACCELERATE_FLOATING(Kind) \
  {kLoop<Kind, Sum>,              \
   reduce<Kind, Sum, Divide>,     \
   kLoop<Kind, Min>,              \
   kLoop<Kind, Max>,              \
   kLoop<Kind, Product>,          \
   nullptr,                       \
   nullptr,                       \
   nullptr}
// Sums, products and bitwise operations on signed integers use unsigned integers, which may
// overflow.
#define ACCELERATE_INTEGER(Signed, Unsigned)                                \
  {kLoop<Integer<Unsigned>, Sum>,     reduce<Integer<Signed>, Sum, Divide>, \
   kLoop<Integer<Signed>, Min>,       kLoop<Integer<Signed>, Max>,          \
   kLoop<Integer<Unsigned>, Product>, kLoop<Integer<Unsigned>, Band>,       \
   kLoop<Integer<Unsigned>, Bor>,     kLoop<Integer<Unsigned>, Bxor>}
#define ACCELERATE_BOOL                                                           \
  {kLoop<Truth, Bor>,  kLoop<Truth, Band>, kLoop<Truth, Band>, kLoop<Truth, Bor>, \
   kLoop<Truth, Band>, kLoop<Truth, Band>, kLoop<Truth, Bor>,  kLoop<Truth, Bxor>}

constexpr KernelTable kTable = {{
    ACCELERATE_FLOATING(Float),
    ACCELERATE_FLOATING(Double),
    ACCELERATE_FLOATING(Half),
    ACCELERATE_FLOATING(BFloat16),
    ACCELERATE_BOOL,
    ACCELERATE_INTEGER(U8, U8),
    ACCELERATE_INTEGER(I8, U8),
    ACCELERATE_INTEGER(I16, U16),
    ACCELERATE_INTEGER(I32, U32),
    ACCELERATE_INTEGER(I64, U64),
}};

}  // namespace
}  // namespace accelerate::detail
