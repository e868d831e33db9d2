// Where the parameters of a unit lie in its flat memory, and which part of each belongs to a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accelerate::detail {

/// Elements [begin, begin + numel) of something.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
};

/// Parameters one after the other, row-major, each from a cache line on, and the whole cut into
/// equal slices, one a rank, without regard to where parameters end. Offsets count elements.
class FlatLayout {
 public:
  /// 64 bytes of a type of two bytes.
  static constexpr std::int64_t kAlignment = 32;

  FlatLayout(const std::vector<std::int64_t>& numels, int slices);

  /// Of the whole, padding included: a multiple of the number of slices.
  [[nodiscard]] std::int64_t numel() const { return slice_numel_ * slices_; }
  [[nodiscard]] std::int64_t slice_numel() const { return slice_numel_; }
  [[nodiscard]] std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  /// What of `parameter` lies in `slice`.
  struct Piece {
    std::int64_t in_parameter = 0;  ///< First element of the parameter.
    std::int64_t in_slice = 0;      ///< The same, in the slice.
    std::int64_t numel = 0;         ///< May be 0.
  };
  [[nodiscard]] Piece piece(std::size_t parameter, int slice) const;

 private:
  std::vector<std::int64_t> numels_, offsets_;
  std::int64_t slices_;
  std::int64_t slice_numel_ = 0;
};

}  // namespace accelerate::detail
