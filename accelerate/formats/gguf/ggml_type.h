// The element types of GGUF files, and how to read their values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace accelerate {

/// The types that are read here, with their numbers in a file.
enum class GgmlType : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, bf16 = 30 };

/// How a type stores its elements: blocks of `elements` elements in `bytes` bytes.
struct GgmlBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
};

[[nodiscard]] GgmlBlock block_of(GgmlType type);
[[nodiscard]] std::string_view ggml_type_name(GgmlType type);
/// Returns the type with this number. Throws CheckpointError for a type that is not read here, with
/// its name in ggml if it has one.
[[nodiscard]] GgmlType parse_ggml_type(std::uint32_t number);

/// Writes the elements of whole blocks as fp32, each with the value that ggml's own dequantisation
/// gives. `bytes` and `values` must hold the same number of blocks. Throws UsageError for a type
/// that is not quantised.
void dequantize(GgmlType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace accelerate
