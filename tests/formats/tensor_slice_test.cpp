#include "accelerate/formats/safetensors/tensor_slice.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <regex>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

using Shape = std::vector<std::int64_t>;
using Ranges = std::vector<IndexRange>;

TensorSpec u8(Shape shape) {
  return {"w", DType::u8, std::move(shape)};
}

std::vector<ByteRun> runs(const TensorSpec& tensor, const Ranges& ranges) {
  return SliceRuns(tensor, ranges).list();
}

TEST(TensorSlice, WholeInnerDimensionsAreOneRun) {
  const TensorSpec tensor{"w", DType::f32, {4, 3, 2}};
  EXPECT_EQ(runs(tensor, {}), (std::vector<ByteRun>{{0, 96}}));
  EXPECT_EQ(runs(tensor, {{1, 3}}), (std::vector<ByteRun>{{24, 48}}));
  EXPECT_EQ(runs(tensor, {{1, 2}, {1, 3}}), (std::vector<ByteRun>{{32, 16}}));
  EXPECT_EQ(runs(tensor, {{0, 2}, {1, 3}}), (std::vector<ByteRun>{{8, 16}, {32, 16}}));
  EXPECT_EQ(runs(tensor, {{0, 2}, {1, 2}, {1, 2}}), (std::vector<ByteRun>{{12, 4}, {36, 4}}));
}

TEST(TensorSlice, ScalarsAndSlicesWithoutElements) {
  EXPECT_EQ(runs({"s", DType::f64, {}}, {}), (std::vector<ByteRun>{{0, 8}}));
  EXPECT_EQ(runs(u8({4, 3}), {{2, 2}}), std::vector<ByteRun>());
  EXPECT_EQ(runs(u8({4, 0}), {}), std::vector<ByteRun>());
  EXPECT_EQ(SliceRuns(u8({4, 3}), Ranges{{2, 2}, {1, 3}}).shape(), (Shape{0, 2}));
  // Sizes that overflow beside a dimension of 0.
  EXPECT_EQ(SliceRuns(u8({0, 1LL << 62, 1LL << 62}), Ranges{}).count(), 0);
}

TEST(TensorSlice, PackedTypesAreCutOnWholeBytesOrNotAtAll) {
  const TensorSpec packed{"w", DType::f4, {4, 6}};
  EXPECT_EQ(runs(packed, {{1, 3}}), (std::vector<ByteRun>{{3, 6}}));
  EXPECT_EQ(runs(packed, {{0, 2}, {2, 4}}), (std::vector<ByteRun>{{1, 1}, {4, 1}}));
  EXPECT_THROW(runs(packed, {{0, 2}, {1, 3}}), UsageError);
  EXPECT_THROW(runs(packed, {{0, 2}, {2, 5}}), UsageError);
  EXPECT_THROW(runs({"w", DType::f4, {2, 3}}, {{0, 2}, {0, 2}}), UsageError);
}

TEST(TensorSlice, WhatIsNotInTheTensorIsRefused) {
  const std::vector<std::pair<Ranges, std::string>> rows = {
      {{{0, 5}}, "0:5 of its dimension 0, which has 0:4"},
      {{{-1, 2}}, "-1:2 of its dimension 0"},
      {{{3, 2}}, "3:2 of its dimension 0"},
      {{{0, 4}, {0, 4}}, "0:4 of its dimension 1, which has 0:3"},
      {{{0, 1}, {0, 1}, {0, 1}}, "3 ranges were given for its 2 dimensions"},
  };
  for (const auto& [ranges, pattern] : rows) {
    try {
      (void)runs(u8({4, 3}), ranges);
      ADD_FAILURE() << pattern;
    } catch (const UsageError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex("tensor 'w': " + pattern)))
          << error.what();
    }
  }
}

// A tensor whose bytes are its indices in row-major order.
std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

// The same slice, element by element.
std::vector<std::byte> slowly(const Shape& shape, const Ranges& ranges,
                              const std::vector<std::byte>& bytes) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::size_t rest = i;
    bool inside = true;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto at = static_cast<std::int64_t>(rest % static_cast<std::size_t>(shape[d]));
      rest /= static_cast<std::size_t>(shape[d]);
      inside = inside && ranges[d].begin <= at && at < ranges[d].end;
    }
    if (inside) out.push_back(bytes[i]);
  }
  return out;
}

TEST(TensorSlice, RandomSlicesAreThoseTakenElementByElementAndGoBackIntoTheirPlace) {
  std::mt19937_64 random(5);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int i = 0; i < 2000; ++i) {
    Shape shape(random() % 5);
    for (auto& size : shape) size = 1 + below(4);
    Ranges ranges;
    for (const auto size : shape) {
      const auto begin = below(size + 1);
      ranges.push_back({begin, begin + below(size - begin + 1)});
    }
    const SliceRuns slice(u8(shape), ranges);
    const auto bytes = numbered(slice.tensor_bytes());
    const auto expected = slowly(shape, ranges, bytes);
    std::vector<std::byte> taken(slice.total_bytes());
    read_slice(slice, bytes, taken);
    ASSERT_EQ(taken, expected);
    std::vector<std::byte> back(bytes.size());
    copy_slice(SliceRuns(u8(slice.shape()), {}), taken, slice, back);
    EXPECT_EQ(slowly(shape, ranges, back), expected);
  }
}

TEST(TensorSlice, CopiesBetweenTensorsOfDifferentShapes) {
  // Rows 1 and 2 of a 4x3 become columns 1 to 3 of a 2x5.
  const auto from = numbered(12);
  std::vector<std::byte> to(10);
  copy_slice(SliceRuns(u8({4, 3}), Ranges{{1, 3}}), from,
             SliceRuns(u8({2, 5}), Ranges{{0, 2}, {1, 4}}), to);
  std::vector<int> values;
  for (const std::byte byte : to) values.push_back(std::to_integer<int>(byte));
  EXPECT_EQ(values, (std::vector<int>{0, 3, 4, 5, 0, 0, 6, 7, 8, 0}));
  EXPECT_THROW(copy_slice(SliceRuns(u8({4}), {}), from, SliceRuns(u8({10}), {}), to), UsageError);
  EXPECT_THROW(copy_slice(SliceRuns(u8({5}), {}), std::span(from).first(4),
                          SliceRuns(u8({2, 5}), Ranges{{0, 1}}), to),
               UsageError);
}

}  // namespace
}  // namespace accelerate
