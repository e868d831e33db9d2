// The JSON header of a safetensors file, as text and as data. Part of formats/safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/safetensors/safetensors.h"

namespace accelerate::detail {

struct HeaderEntry : TensorSpec {
  std::uint64_t begin = 0;  ///< Offsets of its bytes, counted from the end of the header.
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> tensors;  ///< In the order of the text.
  SafetensorsMetadata metadata;
};

/// Reads the JSON text of a header. Checks all that the text alone can break: its grammar,
/// duplicate names and keys, types, exact integers, the limits. Throws CheckpointError whose
/// message is a clause, without the file's name.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json);

/// The eight bytes of length and the JSON text, padded with spaces to a multiple of eight, for
/// tensors that lie one after the other in this order.
[[nodiscard]] std::string safetensors_header_bytes(const std::vector<TensorSpec>& specs,
                                                   const SafetensorsMetadata& metadata);

/// A text of a file in quotes, without control characters and of bearable length.
[[nodiscard]] std::string printable(std::string_view text);

/// "tensor 'encoder.weight'", safe to print and of bearable length.
[[nodiscard]] std::string tensor_label(std::string_view name);

}  // namespace accelerate::detail
