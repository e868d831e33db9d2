#include "accelerate/tensor/scalar_type.h"

#include <array>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

using c10::ScalarType;

constexpr auto kPairs = std::to_array<std::pair<ScalarType, DType>>({
    {ScalarType::Bool, DType::boolean},
    {ScalarType::Byte, DType::u8},
    {ScalarType::Char, DType::i8},
    {ScalarType::Short, DType::i16},
    {ScalarType::UInt16, DType::u16},
    {ScalarType::Int, DType::i32},
    {ScalarType::UInt32, DType::u32},
    {ScalarType::Long, DType::i64},
    {ScalarType::UInt64, DType::u64},
    {ScalarType::Half, DType::f16},
    {ScalarType::BFloat16, DType::bf16},
    {ScalarType::Float, DType::f32},
    {ScalarType::Double, DType::f64},
    {ScalarType::ComplexFloat, DType::c64},
    {ScalarType::Float8_e5m2, DType::f8_e5m2},
    {ScalarType::Float8_e4m3fn, DType::f8_e4m3},
    {ScalarType::Float8_e5m2fnuz, DType::f8_e5m2fnuz},
    {ScalarType::Float8_e4m3fnuz, DType::f8_e4m3fnuz},
    {ScalarType::Float8_e8m0fnu, DType::f8_e8m0},
    {ScalarType::Float4_e2m1fn_x2, DType::f4},
});

}  // namespace

DType to_dtype(c10::ScalarType type) {
  for (const auto& [scalar, dtype] : kPairs) {
    if (scalar == type) return dtype;
  }
  throw CheckpointError(std::string("the safetensors format has no element type for LibTorch's ") +
                        c10::toString(type) +
                        "; convert the tensor first, e.g. ComplexDouble to ComplexFloat");
}

c10::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [scalar, candidate] : kPairs) {
    if (candidate == dtype) return scalar;
  }
  throw CheckpointError("LibTorch has no element type for " + std::string(dtype_name(dtype)) +
                        " of the safetensors format");
}

std::string python_name(ScalarType type) {
  return std::string(c10::getDtypeNames(type).first);
}

bool are_of_one_kind(ScalarType a, ScalarType b) {
  return c10::isFloatingType(a) == c10::isFloatingType(b) &&
         c10::isComplexType(a) == c10::isComplexType(b);
}

std::vector<std::int64_t> to_stored_shape(ScalarType type, std::vector<std::int64_t> sizes) {
  if (type != ScalarType::Float4_e2m1fn_x2) return sizes;
  if (sizes.empty())
    throw CheckpointError(
        "a scalar of Float4_e2m1fn_x2 is two numbers, which the safetensors format cannot tell "
        "from a tensor of two; give it a dimension");
  sizes.back() *= 2;
  return sizes;
}

std::vector<std::int64_t> from_stored_shape(DType dtype, std::vector<std::int64_t> shape) {
  if (dtype != DType::f4) return shape;
  if (shape.empty() || shape.back() % 2 != 0)
    throw CheckpointError(
        "LibTorch has F4 only in pairs, as Float4_e2m1fn_x2: the last dimension must be even");
  shape.back() /= 2;
  return shape;
}

}  // namespace accelerate
