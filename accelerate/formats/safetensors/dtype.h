// The element types that weight files know, without LibTorch. tensor/scalar_type maps them to LibTorch's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace accelerate {

/// The reference safetensors writer lays tensors out by this order, last type first.
// clang-format off
enum class DType : std::uint8_t {
  boolean, f4, f6_e2m3, f6_e3m2, u8, i8, f8_e5m2, f8_e4m3, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz,
  i16, u16, f16, bf16, i32, u32, f32, c64, f64, i64, u64,
};
// clang-format on

/// Returns all types, in the order above.
[[nodiscard]] std::span<const DType> all_dtypes();

/// Returns the name in a safetensors header: "F32", "BF16", "BOOL", ….
[[nodiscard]] std::string_view dtype_name(DType dtype);

/// Returns the type with exactly this safetensors name; nullopt if there is none.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);

/// Returns the bits of one element: 4 or 6 for the types that are packed tighter than a byte, else
/// 8, 16, 32 or 64.
[[nodiscard]] unsigned bits_of(DType dtype);

/// Returns the alignment in bytes that a pointer to elements needs: 1, 2, 4 or 8. A C64 is two
/// floats, so it needs 4.
[[nodiscard]] unsigned alignment_of(DType dtype);

/// Returns the bytes of a tensor of `dtype` and `shape`. Returns nullopt when a dimension is
/// negative, the product overflows 64 bits, or the elements do not fill whole bytes.
[[nodiscard]] std::optional<std::uint64_t> bytes_of(DType dtype,
                                                    std::span<const std::int64_t> shape);

}  // namespace accelerate
