// Every compiled version of the kernels against the scalar definition, bit by bit.
#include "accelerate/comm/shared_memory/kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/comm/shared_memory/kernel_reference.h"

namespace accelerate::detail {
namespace {

using testing::expected_element;
using testing::kFloating;
using testing::Truth;
using Dtype = at::ScalarType;

// --- Values and memory

template <typename T>
T random_value(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<unsigned char>(bits % 3 == 0 ? 0 : bits)};
  } else if constexpr (std::is_floating_point_v<T>) {
    // Any bits, subnormal, infinite and NaN too, but mostly numbers whose sums are rounded.
    return bits % 4 == 0 ? value : static_cast<T>(static_cast<double>(bits) / 1e19 - 0.7);
  } else {
    return value;
  }
}

/// `count` elements, `shift` elements behind a multiple of 64 bytes, between canaries.
template <typename T>
class Guarded {
 public:
  Guarded(std::size_t count, std::size_t shift)
      : count_(count), memory_((count + shift) * sizeof(T) + 3 * kGuard, kCanary) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    at_ = memory_.data() + kGuard + (64 - start % 64) % 64 + shift * sizeof(T);
  }
  std::byte* data() { return at_; }
  T read(std::size_t i) const {
    T value;
    std::memcpy(&value, at_ + i * sizeof(T), sizeof(T));
    return value;
  }
  std::vector<T> read_all() const {
    std::vector<T> values;
    for (std::size_t i = 0; i < count_; ++i) values.push_back(read(i));
    return values;
  }
  void write(std::size_t i, T value) { std::memcpy(at_ + i * sizeof(T), &value, sizeof(T)); }
  bool intact() const {
    const auto safe = [](std::byte byte) { return byte == kCanary; };
    const std::byte* begin = memory_.data();
    return std::all_of(begin, static_cast<const std::byte*>(at_), safe) &&
           std::all_of(static_cast<const std::byte*>(at_) + count_ * sizeof(T),
                       begin + memory_.size(), safe);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kCanary{0xA5};
  std::size_t count_;
  std::vector<std::byte> memory_;
  std::byte* at_;
};

template <typename T>
bool same(T a, T b) {
  if constexpr (kFloating<T>) {
    if (a != a && b != b) return true;  // which NaN is the processor's choice
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// --- One reduction

struct Case {
  Dtype dtype;
  ReduceOp op;
  std::size_t sources;
  std::size_t count;
  std::size_t shift = 0;         ///< Of the i-th source: i * shift elements.
  std::size_t destinations = 1;  ///< Besides those in place.
  std::size_t in_place = 0;      ///< So many of the sources, last first, are destinations too.
};

std::string describe(const Case& c) {
  return std::string(c10::toString(c.dtype)) + " " + std::string(to_string(c.op)) + " of " +
         std::to_string(c.sources) + " x " + std::to_string(c.count) + ", shift " +
         std::to_string(c.shift) + ", to " + std::to_string(c.destinations) + " and " +
         std::to_string(c.in_place) + " in place";
}

template <typename T>
std::vector<Guarded<T>> make_buffers(std::size_t number, const Case& c, std::mt19937_64& random) {
  std::vector<Guarded<T>> buffers;
  buffers.reserve(number);
  for (std::size_t i = 0; i < number; ++i) {
    buffers.emplace_back(c.count, i * c.shift % 8);
    for (std::size_t e = 0; e < c.count; ++e) buffers[i].write(e, random_value<T>(random));
  }
  return buffers;
}

template <typename T>
std::vector<T> expected_elements(const std::vector<Guarded<T>>& sources, const Case& c) {
  std::vector<T> results, values(sources.size());
  for (std::size_t e = 0; e < c.count; ++e) {
    for (std::size_t i = 0; i < sources.size(); ++i) values[i] = sources[i].read(e);
    results.push_back(expected_element(values, c.op));
  }
  return results;
}

template <typename T>
::testing::AssertionResult holds(const Guarded<T>& buffer, const std::vector<T>& expected) {
  if (!buffer.intact()) return ::testing::AssertionFailure() << "wrote beyond its end";
  for (std::size_t e = 0; e < expected.size(); ++e) {
    if (!same(buffer.read(e), expected[e])) {
      return ::testing::AssertionFailure() << "element " << e << " is wrong";
    }
  }
  return ::testing::AssertionSuccess();
}

template <typename T>
void check(const Case& c) {
  std::mt19937_64 random(c.count * 31 + c.sources);
  auto sources = make_buffers<T>(c.sources, c, random);
  auto others = make_buffers<T>(c.destinations, c, random);
  const std::vector<T> expected = expected_elements(sources, c);
  std::vector<std::vector<T>> before;
  for (const auto& source : sources) before.push_back(source.read_all());

  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (auto& source : sources) from.push_back(source.data());
  for (auto& other : others) to.push_back(other.data());
  for (std::size_t i = 0; i < c.in_place; ++i) to.push_back(sources[c.sources - 1 - i].data());
  std::rotate(to.begin(), to.begin() + (c.count % to.size()), to.end());
  reduce_elements(to, from, c.count, c.dtype, c.op);

  for (const auto& other : others) EXPECT_TRUE(holds(other, expected)) << describe(c);
  for (std::size_t i = 0; i < c.sources; ++i) {
    const bool overwritten = i + c.in_place >= c.sources;
    EXPECT_TRUE(holds(sources[i], overwritten ? expected : before[i])) << describe(c);
  }
}

void check(const Case& c) {
  switch (c.dtype) {
    case Dtype::Float:
      return check<float>(c);
    case Dtype::Double:
      return check<double>(c);
    case Dtype::Half:
      return check<c10::Half>(c);
    case Dtype::BFloat16:
      return check<c10::BFloat16>(c);
    case Dtype::Bool:
      return check<Truth>(c);
    case Dtype::Byte:
      return check<std::uint8_t>(c);
    case Dtype::Char:
      return check<std::int8_t>(c);
    case Dtype::Short:
      return check<std::int16_t>(c);
    case Dtype::Int:
      return check<std::int32_t>(c);
    default:
      return check<std::int64_t>(c);
  }
}

const std::vector<Dtype> kDtypes = {Dtype::Float, Dtype::Double, Dtype::Half, Dtype::BFloat16,
                                    Dtype::Bool,  Dtype::Byte,   Dtype::Char, Dtype::Short,
                                    Dtype::Int,   Dtype::Long};

std::vector<ReduceOp> ops_of(Dtype dtype) {
  std::vector<ReduceOp> ops = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max,
                               ReduceOp::product};
  if (c10::isIntegralType(dtype, /*includeBool=*/true)) {
    ops.insert(ops.end(), {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor});
  }
  return ops;
}

template <typename Body>
void for_each_dtype_and_op(Body body) {
  for (const auto dtype : kDtypes) {
    for (const auto op : ops_of(dtype)) body(dtype, op);
  }
}

/// Leaves the best version in use for the tests that follow.
class Kernels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(choose_kernels(GetParam())); }
  void TearDown() override { choose_kernels(kernel_versions().back()); }
};

TEST_P(Kernels, EveryDtypeAndReductionIsTheScalarDefinitionBitByBit) {
  for_each_dtype_and_op([](Dtype dtype, ReduceOp op) {
    for (std::size_t sources = 1; sources <= 5; ++sources) check({dtype, op, sources, 1000});
    for (const std::size_t sources : {7, 8, 11}) check({dtype, op, sources, 150});
  });
}

TEST_P(Kernels, LengthsAroundEveryVectorEdge) {
  for_each_dtype_and_op([](Dtype dtype, ReduceOp op) {
    for (std::size_t count = 0; count <= 33; ++count) check({dtype, op, 2 + count % 4, count});
    for (const std::size_t edge : {64, 128, 256}) {
      for (std::size_t count = edge - 1; count <= edge + 1; ++count) check({dtype, op, 3, count});
    }
  });
}

TEST_P(Kernels, LengthsAroundEveryTileEdge) {
  for_each_dtype_and_op([](Dtype dtype, ReduceOp op) {
    for (const std::size_t tile : {1024, 2048, 4096, 8192}) {
      for (std::size_t count = tile - 1; count <= tile + 1; ++count) check({dtype, op, 2, count});
      check({dtype, op, 5, 2 * tile + 1});
    }
  });
}

TEST_P(Kernels, StartsThatAreAlignedToTheElementOnly) {
  for_each_dtype_and_op([](Dtype dtype, ReduceOp op) {
    for (const std::size_t shift : {1, 3, 5}) {
      for (const std::size_t count : {7, 65, 300}) check({dtype, op, 4, count, shift});
    }
  });
}

TEST_P(Kernels, ResultsGoToSeveralDestinationsAndInPlace) {
  for_each_dtype_and_op([](Dtype dtype, ReduceOp op) {
    for (std::size_t in_place = 0; in_place <= 5; ++in_place) {
      for (const std::size_t destinations : {1, 3}) {
        for (const std::size_t count : {66, 1030, 8197}) {
          check({dtype, op, 5, count, in_place, destinations, in_place});
        }
      }
    }
  });
}

// All 65,536 bit patterns there and back; means of them with one element in between are rounded.
template <typename T>
void check_every_pattern(Dtype dtype) {
  constexpr std::size_t kPatterns = 65536;
  for (const std::uint16_t step : {0, 1, 0x03FF, 0x4000}) {
    Guarded<T> first(kPatterns, 0), second(kPatterns, 1), result(kPatterns, 2);
    std::vector<T> expected;
    for (std::size_t bits = 0; bits < kPatterns; ++bits) {
      first.write(bits, T(static_cast<std::uint16_t>(bits), T::from_bits()));
      second.write(bits, T(static_cast<std::uint16_t>(bits + step), T::from_bits()));
      expected.push_back(
          expected_element<T>({first.read(bits), second.read(bits)}, ReduceOp::mean));
    }
    std::byte* const to[] = {result.data()};
    const std::byte* const from[] = {first.data(), second.data()};
    reduce_elements(to, from, kPatterns, dtype, ReduceOp::mean);
    EXPECT_TRUE(holds(result, expected)) << c10::toString(dtype) << " step " << step;
  }
}

TEST_P(Kernels, EveryPatternOfA16BitFloatIsConvertedAsC10Does) {
  check_every_pattern<c10::Half>(Dtype::Half);
  check_every_pattern<c10::BFloat16>(Dtype::BFloat16);
}

TEST_P(Kernels, SumsOf16BitFloatsAreRoundedOnce) {
  // In half precision 2048 + 1 is 2048 each time; 2048 + 1 + 1 is a number of its own.
  Guarded<c10::Half> large(1, 0), small(1, 0), result(1, 0);
  large.write(0, 2048.0F);
  small.write(0, 1.0F);
  std::byte* const to[] = {result.data()};
  const std::byte* const from[] = {large.data(), small.data(), small.data()};
  reduce_elements(to, from, 1, Dtype::Half, ReduceOp::sum);
  EXPECT_EQ(static_cast<float>(result.read(0)), 2050.0F);
}

TEST_P(Kernels, NansOf16BitFloatsAreThoseOfC10) {
  for (const auto dtype : {Dtype::Half, Dtype::BFloat16}) {
    Guarded<std::uint16_t> quiet_or_not(40, 0), result(40, 0);
    for (std::size_t i = 0; i < 40; ++i) quiet_or_not.write(i, i % 2 == 0 ? 0x7FA1 : 0xFFC3);
    std::byte* const to[] = {result.data()};
    const std::byte* const from[] = {quiet_or_not.data()};
    reduce_elements(to, from, 40, dtype, ReduceOp::sum);
    for (std::size_t i = 0; i < 40; ++i) {
      const int half = i % 2 == 0 ? 0x7E00 : 0xFE00;
      EXPECT_EQ(result.read(i), dtype == Dtype::Half ? half : 0x7FC0) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Version, Kernels, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto name : kernel_versions()) names.emplace_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(KernelVersions, TheBaselineRunsEverywhereAndUnknownNamesAreRefused) {
  EXPECT_EQ(kernel_versions().front(), "baseline");
  EXPECT_FALSE(choose_kernels("avx1024"));
}

TEST(KernelVersions, DtypesWithoutKernelAreLeftToStaging) {
  for (const auto dtype : kDtypes) EXPECT_TRUE(has_kernel(dtype)) << c10::toString(dtype);
  for (const auto dtype :
       {Dtype::ComplexFloat, Dtype::Float8_e4m3fn, Dtype::UInt16, Dtype::QInt8}) {
    EXPECT_FALSE(has_kernel(dtype)) << c10::toString(dtype);
  }
}

TEST(KernelVersions, WhatHasNoMeaningIsNotComputed) {
  float value = 1;
  std::byte* const to[] = {reinterpret_cast<std::byte*>(&value)};
  const std::byte* const from[] = {to[0]};
  EXPECT_THROW(reduce_elements(to, from, 1, Dtype::Float, ReduceOp::bxor), std::logic_error);
  EXPECT_THROW(reduce_elements(to, from, 1, Dtype::ComplexHalf, ReduceOp::sum), std::logic_error);
  EXPECT_THROW(reduce_elements(to, {}, 1, Dtype::Float, ReduceOp::sum), std::logic_error);
  EXPECT_THROW(reduce_elements({}, from, 1, Dtype::Float, ReduceOp::sum), std::logic_error);
}

TEST(CopyStreaming, CopiesEveryLengthFromAndToEveryAlignment) {
  std::mt19937_64 random(7);
  for (std::size_t from = 0; from < 64; from += 7) {
    for (std::size_t to = 0; to < 64; to += 5) {
      for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 200, 4096, 9001}) {
        Guarded<std::uint8_t> source(bytes, from), copy(bytes, to);
        std::vector<std::uint8_t> expected;
        for (std::size_t i = 0; i < bytes; ++i) {
          source.write(i, random_value<std::uint8_t>(random));
          expected.push_back(source.read(i));
        }
        copy_streaming(copy.data(), source.data(), bytes);
        ASSERT_TRUE(holds(copy, expected)) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace accelerate::detail
