// The place of every tensor in a safetensors file, known before the first byte is written. So
// several threads can write tensors at the same time, or tensors can be sent to where they are
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate {

/// The layout of one file: its header, then the tensors one after the other.
class SafetensorsLayout {
 public:
  /// Throws UsageError for a name that appears twice, is not UTF-8, is too long or is
  /// `__metadata__`. Throws UsageError too for a negative dimension, a size that overflows,
  /// metadata that is not UTF-8, or a header beyond the limits.
  explicit SafetensorsLayout(std::vector<TensorSpec> specs,
                             const SafetensorsMetadata& metadata = {});

  /// The specs in the order of the file: by DType, last type first, then by name.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return specs_; }
  /// The file's first bytes: the length of the header, then the header.
  [[nodiscard]] const std::string& header() const { return header_; }
  /// Returns the offset of tensor `index` of tensors(), counted from the file's first byte.
  [[nodiscard]] std::uint64_t offset_bytes(std::size_t index) const { return ends_.at(index); }
  [[nodiscard]] std::uint64_t size_bytes(std::size_t index) const {
    return ends_.at(index + 1) - ends_.at(index);
  }
  /// The length of the whole file.
  [[nodiscard]] std::uint64_t file_bytes() const { return ends_.back(); }
  /// Returns the index of the tensor called `name`. Throws UsageError, with the most similar name,
  /// if there is none. Cost: logarithmic.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

 private:
  std::vector<TensorSpec> specs_;
  std::vector<std::uint32_t> by_name_;  // Indices into specs_, sorted by name.
  std::vector<std::uint64_t> ends_;     // Ends of the header, then of each tensor.
  std::string header_;
};

}  // namespace accelerate
