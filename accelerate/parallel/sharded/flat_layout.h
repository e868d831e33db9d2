// Where the parameters of a unit lie in its flat memory, and which part of each belongs to a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accelerate::detail {

/// Lays out parameters one after the other, row-major, each from a cache line on. The whole is cut
/// into equal slices, one per rank, without regard to where parameters end. Offsets count elements.
class FlatLayout {
 public:
  /// In elements: 64 bytes of a two-byte type.
  static constexpr std::int64_t kAlignment = 32;

  FlatLayout(const std::vector<std::int64_t>& numels, int slices);

  /// The number of elements of all slices, padding included.
  [[nodiscard]] std::int64_t numel() const { return slice_numel_ * slices_; }
  [[nodiscard]] std::int64_t slice_numel() const { return slice_numel_; }
  [[nodiscard]] std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  /// The part of a parameter that lies in a slice.
  struct Piece {
    std::int64_t in_parameter = 0;  ///< Its first element, counted in the parameter.
    std::int64_t in_slice = 0;      ///< Its first element, counted in the slice.
    std::int64_t numel = 0;         ///< May be 0.
  };
  [[nodiscard]] Piece piece(std::size_t parameter, int slice) const;

 private:
  std::vector<std::int64_t> numels_, offsets_;
  std::int64_t slices_;
  std::int64_t slice_numel_ = 0;
};

}  // namespace accelerate::detail
