#include "accelerate/formats/safetensors/dtype.h"

#include <gtest/gtest.h>

#include <vector>

namespace accelerate {
namespace {

TEST(DType, NamesRoundTripAndAreExact) {
  EXPECT_EQ(all_dtypes().size(), 22);
  for (const DType dtype : all_dtypes()) EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  for (const char* wrong : {"", "f32", "F32 ", "float32", "F33"}) {
    EXPECT_EQ(parse_dtype(wrong), std::nullopt) << wrong;
  }
}

TEST(DType, BytesOfAShapeAreChecked) {
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(bytes_of(DType::f32, Shape{2, 3}), 24);
  EXPECT_EQ(bytes_of(DType::f64, Shape{}), 8);
  EXPECT_EQ(bytes_of(DType::bf16, Shape{5, 0}), 0);
  EXPECT_EQ(bytes_of(DType::f4, Shape{6}), 3);
  EXPECT_EQ(bytes_of(DType::f6_e3m2, Shape{4}), 3);
  EXPECT_EQ(bytes_of(DType::f4, Shape{3}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::f32, Shape{-1}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::u8, Shape{1LL << 62, 4}), std::nullopt);
  EXPECT_EQ(bytes_of(DType::f64, Shape{1LL << 60}), std::nullopt);
}

}  // namespace
}  // namespace accelerate
