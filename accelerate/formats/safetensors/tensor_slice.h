// Parts of tensors as runs of bytes: reading a slice of a mapped file, or moving one from a tensor
// of one shape into its place in another, as loading for another number of ranks does.
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

/// Bytes of a tensor, counted from its first.
struct ByteRun {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  bool operator==(const ByteRun&) const = default;
};

/// Where the elements of a slice lie among the bytes of a row-major tensor: runs in ascending
/// order, as few as there can be, all of the same length. Takes the same small memory however many
/// they are.
class SliceRuns {
 public:
  /// The slice of a tensor by one range a dimension; dimensions beyond `ranges` are taken whole.
  /// Throws UsageError when a range is not in its dimension, there are more ranges than dimensions,
  /// or a slice of a type of 4 or 6 bits does not begin and end on whole bytes.
  SliceRuns(const TensorSpec& tensor, std::span<const IndexRange> ranges);

  /// The shape of the slice.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Number of runs; 0 when the slice has no elements.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t run_bytes() const { return run_bytes_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return count_ * run_bytes_; }
  /// Bytes of the whole tensor.
  [[nodiscard]] std::uint64_t tensor_bytes() const { return tensor_bytes_; }
  /// Run `index`, below count(). Cost: a division a dimension.
  [[nodiscard]] ByteRun operator[](std::uint64_t index) const;
  /// All runs. Memory: 16 bytes each.
  [[nodiscard]] std::vector<ByteRun> list() const;

 private:
  struct Outer {  // A dimension whose steps leave the run.
    std::uint64_t count, stride_bytes;
  };

  std::vector<std::int64_t> shape_;
  std::vector<Outer> outer_;  // Innermost first.
  std::uint64_t first_ = 0;   // Offset of run 0.
  std::uint64_t count_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::uint64_t tensor_bytes_ = 0;
};

/// Copies the elements of one slice, in order, to where those of another lie. `from_bytes` and
/// `to_bytes` are the whole tensors. Throws UsageError when the slices have unequal sizes, or the
/// bytes are not those of their tensors. Cost: one memcpy a run of the one that has more.
void copy_slice(const SliceRuns& from, std::span<const std::byte> from_bytes, const SliceRuns& to,
                std::span<std::byte> to_bytes);

/// Copies a slice into a buffer of exactly its total_bytes().
void read_slice(const SliceRuns& from, std::span<const std::byte> from_bytes,
                std::span<std::byte> out);

}  // namespace accelerate
