// Where everything lies in a safetensors file, known before a byte of it is written: so tensors can
// be written by several threads at once, or sent to where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/safetensors/dtype.h"

namespace accelerate {

/// Our caps on what a header may ask for; files beyond them are refused, and not written.
struct SafetensorsLimits {
  static constexpr std::uint64_t kHeaderBytes = 100'000'000;  ///< As the reference reader's.
  static constexpr std::size_t kTensors = 1'000'000;
  static constexpr std::size_t kNameBytes = 4096;
  static constexpr std::size_t kRank = 32;
};

/// A tensor's name, element type and shape.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  ///< {} for a scalar; a dimension may be 0.
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// The layout of one file: its header, then every tensor in its place.
class SafetensorsLayout {
 public:
  /// Throws UsageError when the specs cannot be a file: a name twice, no UTF-8, too long or
  /// `__metadata__`; a negative dimension; a size that overflows; metadata that is no UTF-8; a
  /// header beyond the limits.
  explicit SafetensorsLayout(std::vector<TensorSpec> specs,
                             const SafetensorsMetadata& metadata = {});

  /// In the order of the file: by DType, last first, then by name.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return specs_; }
  /// The file's first bytes: the header's length and the header.
  [[nodiscard]] const std::string& header() const { return header_; }
  /// Where the bytes of tensor `index` of tensors() begin, counted from the file's first byte.
  [[nodiscard]] std::uint64_t offset_bytes(std::size_t index) const { return ends_.at(index); }
  [[nodiscard]] std::uint64_t size_bytes(std::size_t index) const {
    return ends_.at(index + 1) - ends_.at(index);
  }
  /// Length of the whole file.
  [[nodiscard]] std::uint64_t file_bytes() const { return ends_.back(); }
  /// The index of the tensor called `name`; UsageError, with the nearest name, when there is none.
  /// Cost: logarithmic.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

 private:
  std::vector<TensorSpec> specs_;
  std::vector<std::uint32_t> by_name_;  // Indices into specs_, sorted by name.
  std::vector<std::uint64_t> ends_;     // Of the header, then of each tensor.
  std::string header_;
};

}  // namespace accelerate
