// The types of elements that GGUF files know, and their values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace accelerate {

/// The types that are read here, by their numbers in a file.
enum class GgmlType : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, bf16 = 30 };

/// How a type stores its elements: so many in so many bytes.
struct GgmlBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
};

[[nodiscard]] GgmlBlock block_of(GgmlType type);
[[nodiscard]] std::string_view ggml_type_name(GgmlType type);
/// The type with that number. Throws CheckpointError, with its name in ggml if it has one, for a
/// type that is not read.
[[nodiscard]] GgmlType parse_ggml_type(std::uint32_t number);

/// Writes the elements of whole blocks as fp32, each the one that ggml's own dequantisation gives.
/// `bytes` and `values` have the sizes of as many blocks. Throws UsageError for a type whose
/// elements stand for themselves.
void dequantize(GgmlType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace accelerate
