// Parts of tensors as runs of bytes. Two uses: reading a slice of a mapped file, and moving a slice
// of one tensor into its place in a tensor of another shape, as loading for another number of ranks
// does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "accelerate/formats/safetensors/safetensors_layout.h"

namespace accelerate {

/// The indices begin, …, end - 1 of one dimension; 0 <= begin <= end <= its size.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A run of bytes in a tensor; the offset counts from the tensor's first byte.
struct ByteRun {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  bool operator==(const ByteRun&) const = default;
};

/// Where the elements of a slice lie among the bytes of a row-major tensor: as few runs as
/// possible, in ascending order, all of the same length. Memory: constant, however many runs there
/// are.
class SliceRuns {
 public:
  /// Takes one range a dimension; dimensions beyond `ranges` are taken whole. Throws UsageError
  /// when a range leaves its dimension, when there are more ranges than dimensions, or when a slice
  /// of a 4-bit or 6-bit type does not begin and end on whole bytes.
  SliceRuns(const TensorSpec& tensor, std::span<const IndexRange> ranges);

  /// The shape of the slice.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  /// The number of runs; 0 when the slice has no elements.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return count_ * run_bytes_; }
  /// The bytes of the whole tensor.
  [[nodiscard]] std::uint64_t tensor_bytes() const { return tensor_bytes_; }
  /// Returns run `index`, which must be below count(). Cost: a division a dimension.
  [[nodiscard]] ByteRun operator[](std::uint64_t index) const;
  /// Returns all runs. Memory: 16 bytes each.
  [[nodiscard]] std::vector<ByteRun> list() const;

 private:
  struct Outer {  // A dimension whose steps lead out of a run.
    std::uint64_t count, stride_bytes;
  };

  std::vector<std::int64_t> shape_;
  std::vector<Outer> outer_;  // Innermost dimension first.
  std::uint64_t first_ = 0;   // Offset of run 0.
  std::uint64_t count_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::uint64_t tensor_bytes_ = 0;
};

/// Copies the elements of the slice `from`, in order, to the places of the slice `to`. `from_bytes`
/// and `to_bytes` are the bytes of the whole tensors. Throws UsageError when the slices differ in
/// size, or the bytes do not match their tensors. Cost: one memcpy a run of the slice with more
/// runs.
void copy_slice(const SliceRuns& from, std::span<const std::byte> from_bytes, const SliceRuns& to,
                std::span<std::byte> to_bytes);

/// Copies a slice into a buffer of exactly `from.total_bytes()` bytes.
void read_slice(const SliceRuns& from, std::span<const std::byte> from_bytes,
                std::span<std::byte> out);

}  // namespace accelerate
