// The header of a safetensors file and the order of its tensors, known before the first byte is
// written.
#pragma once

#include <cstdint>
#include <string>
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
  /// The length of the whole file.
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  std::vector<TensorSpec> specs_;
  std::string header_;
  std::uint64_t file_bytes_;
};

}  // namespace accelerate
