// Tensors that DeepSpeed has laid one after the other into flat memory, which it then cut among
// ranks without regard to their borders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {

/// Returns the tensor as the part of `name` that is the whole. `file`: where its bytes lie, an
/// index into the files of the catalogue. The tensor must be contiguous.
[[nodiscard]] FoundPart whole_part(const std::string& name, const TorchTensor& tensor,
                                   std::size_t file);

/// Elements of a row-major tensor.
struct ElementRange {
  std::string name;
  std::vector<std::int64_t> shape;  ///< Of the whole tensor.
  std::int64_t begin = 0, numel = 0;
};

/// Elements that lie in several pieces of memory, one after the other.
class FlatElements {
 public:
  /// Adds the elements of a contiguous tensor at the end. `file`: where its bytes lie.
  void add(const TorchTensor& tensor, std::size_t file);
  /// Leaves out elements that no file holds.
  void skip(std::int64_t numel) { numel_ += numel; }
  [[nodiscard]] std::int64_t numel() const { return numel_; }

  /// Appends the parts of a tensor to `parts`: its elements `range` are those that begin at `at`
  /// here. What lies beyond the end, or was left out, is not appended.
  void find(const ElementRange& range, std::int64_t at, std::vector<FoundPart>& parts) const;

 private:
  struct Segment {
    std::int64_t begin = 0, numel = 0;
    DType dtype = DType::f32;
    ShardPiece piece;
  };

  std::vector<Segment> segments_;
  std::int64_t numel_ = 0;
};

}  // namespace accelerate
