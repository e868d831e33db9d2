// The JSON header of a safetensors file, as text and as data. Its length, and the offsets in it,
// are checked in safetensors_reader.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate::detail {

struct HeaderEntry : TensorSpec {
  std::uint64_t begin = 0;  ///< Offset of its first byte from the end of the header.
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> tensors;  ///< In the order of the text.
  SafetensorsMetadata metadata;
};

/// Parses the JSON text of a header. Checks every rule that concerns the text alone: grammar,
/// duplicate names and keys, types, exact integers, the limits. Throws CheckpointError whose
/// message is a clause, without the file's name.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json);

/// Returns the first bytes of a file: the length in eight bytes, then the JSON text, padded with
/// spaces to a multiple of eight. The tensors lie one after the other in the order of `specs`.
[[nodiscard]] std::string safetensors_header_bytes(const std::vector<TensorSpec>& specs,
                                                   const SafetensorsMetadata& metadata);

/// Returns a text of a file in quotes, without control characters and shortened if it is long.
[[nodiscard]] std::string printable(std::string_view text);

/// Returns "tensor 'encoder.weight'", safe to print and shortened if it is long.
[[nodiscard]] std::string tensor_label(std::string_view name);

/// Returns "[2, 3]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace accelerate::detail
