#include "accelerate/watch/trackers/values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using detail::encode_image;
using detail::summarize;

at::Tensor doubles(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

// Sums are taken in another order there: a relative 1e-12. Edges and counts are exact.
TEST(Histogram, CountsAsTheOriginalDoes) {
  const auto rows =
      nlohmann::json::parse(testing::read_reference("tensorboard_events.json")).at("histograms");
  ASSERT_EQ(rows.size(), 10u);
  for (const auto& row : rows) {
    const auto summary = summarize(doubles(row.at("values")));
    ASSERT_TRUE(summary) << row.at("name");
    EXPECT_EQ(summary->bucket_limit, row.at("bucket_limit").get<std::vector<double>>())
        << row.at("name");
    EXPECT_EQ(summary->bucket, row.at("bucket").get<std::vector<double>>()) << row.at("name");
    EXPECT_EQ(summary->min, row.at("min"));
    EXPECT_EQ(summary->max, row.at("max"));
    EXPECT_EQ(summary->num, row.at("num"));
    const double squares = row.at("sum_squares");
    EXPECT_NEAR(summary->sum, row.at("sum").get<double>(),
                1e-12 * std::sqrt(squares * summary->num) + 1e-30);
    EXPECT_NEAR(summary->sum_squares, squares, 1e-12 * squares);
  }
}

TEST(Histogram, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto summary = summarize(doubles({nan, 1.0, inf, 2.0, -inf}));
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->num, 2);
  EXPECT_EQ(summary->sum, 3);
  EXPECT_FALSE(summarize(doubles({nan, inf})));
  EXPECT_FALSE(summarize(at::empty({0})));
  EXPECT_FALSE(summarize(at::Tensor()));
}

TEST(Histogram, TakesAnyShapeAndDtype) {
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kLong, at::kByte, at::kBool}) {
    const auto summary = summarize(at::ones({2, 3}).to(dtype).t());
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->num, 6);
  }
  EXPECT_TRUE(summarize(at::ones({2}).requires_grad_()));
}

TEST(Histogram, TakesEveryLayout) {
  const at::Tensor values = doubles({0, 1, 0, 2});
  const at::Tensor quantized = at::quantize_per_tensor(values.to(at::kFloat), 0.5, 0, at::kQInt8);
  for (const at::Tensor& one : {values.to_sparse(), quantized, values.view({2, 2}).t()}) {
    const auto summary = summarize(one);
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->num, 4);
    EXPECT_EQ(summary->sum, 3);
  }
}

// Numbers on, just below and just above every edge, and between: against the search that the table
// stands for.
TEST(Histogram, PutsEveryNumberBetweenItsEdges) {
  std::vector<double> edges = {0};
  for (double v = 1e-12; v < 1e20; v *= 1.1) {
    edges.push_back(v);
    edges.insert(edges.begin(), -v);
  }
  for (const double edge : edges) {
    for (const double v : {edge, std::nextafter(edge, -1e30), std::nextafter(edge, 1e30),
                           edge * 1.03, edge * 1.07}) {
      if (v < edges.front() || v >= edges.back()) continue;
      const auto above = std::upper_bound(edges.begin(), edges.end(), v);
      const auto summary = summarize(doubles({v}));
      ASSERT_EQ(summary->bucket_limit, (std::vector<double>{*(above - 1), *above})) << v;
      ASSERT_EQ(summary->bucket, (std::vector<double>{0, 1})) << v;
    }
  }
}

TEST(Histogram, AllBeyondTheLastEdgeIsOneBucket) {
  const auto summary = summarize(doubles({1e25, 1e30}));
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->bucket, (std::vector<double>{2}));
  EXPECT_EQ(summary->bucket_limit, (std::vector<double>{1e30}));
}

struct ImageCase {
  at::Tensor image;
  int height, width, channels;
};

TEST(Image, ComesInEveryShapeThatIsAllowed) {
  for (const auto& one : std::vector<ImageCase>{{at::zeros({4, 6}), 4, 6, 3},
                                                {at::zeros({1, 4, 6}), 4, 6, 3},
                                                {at::zeros({3, 4, 6}), 4, 6, 3},
                                                {at::zeros({4, 4, 6}), 4, 6, 4},
                                                {at::zeros({1, 1, 4, 6}), 4, 6, 3},
                                                {at::zeros({9, 3, 4, 6}), 8, 48, 3},
                                                {at::zeros({3, 1, 4, 6}, at::kByte), 4, 18, 3},
                                                {at::zeros({4, 6}, at::kBool), 4, 6, 3},
                                                {at::zeros({4, 6}, at::kBFloat16), 4, 6, 3}}) {
    const auto png = encode_image("x", one.image);
    EXPECT_EQ(png.height, one.height);
    EXPECT_EQ(png.width, one.width);
    EXPECT_EQ(png.channels, one.channels);
    EXPECT_TRUE(png.png.starts_with("\x89PNG\r\n"));
  }
}

TEST(Image, OfTruthsIsBlackAndWhite) {
  const at::Tensor truths = at::eye(3).to(at::kBool);
  EXPECT_EQ(encode_image("x", truths).png, encode_image("x", truths.to(at::kByte).mul(255)).png);
}

TEST(Image, OfAnotherShapeOrDtypeIsRefusedWithWhatIsAllowed) {
  for (const auto& bad : {at::Tensor(), at::zeros({3}), at::zeros({2, 4, 4}), at::zeros({0, 4}),
                          at::zeros({1, 4, 4, 4}), at::zeros({1, 1, 3, 4, 4}),
                          at::zeros({4, 4}, at::kLong), at::zeros({4, 4}, at::kComplexFloat),
                          at::zeros({4, 4}).to_sparse(), at::zeros({4, 4}, at::kMeta)}) {
    try {
      (void)encode_image("sample", bad);
      ADD_FAILURE() << "accepted";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("'sample'"), std::string::npos) << text;
      EXPECT_NE(text.find("[C, H, W]"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace accelerate
