// Whole values of a sharded model in the type of its optimizer, for uses that need more than
// slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gradient_shards.h"

namespace accelerate::detail {

class WholeParameters {
 public:
  /// `device`: where whole values are put.
  WholeParameters(Units& units, const ShardGroups& groups, at::Device device);

  /// Makes the leaves ordinary tensors over whole values. Where `here` is false the rank only takes
  /// part. [collective] Throws CommError, and then the leaves are sharded again.
  void summon(bool here);
  [[nodiscard]] bool are_summoned() const { return !flats_.empty(); }
  /// Makes the leaves sharded again. Returns the flat memory in which they lay, {numel} for each
  /// unit; undefined where the rank only took part.
  std::vector<at::Tensor> dismiss();
  /// As dismiss(), and the returned memory has all values of the leaves, also of leaves that were
  /// given other memory meanwhile (by torch::load, set_data). [collective] Throws UsageError on all
  /// ranks when a leaf has another shape or type; the leaves are then sharded again.
  [[nodiscard]] std::vector<at::Tensor> take_back();
  /// Makes the parts of `flats` that belong to this rank its slices. `flats`: the result of
  /// take_back(). To be called inside an update of the model.
  void cut(const std::vector<at::Tensor>& flats);

 private:
  void take_in() const;
  [[nodiscard]] at::Tensor gather(const Unit& unit) const;
  static void lay_leaves(Unit& unit, const at::Tensor& flat);

  Units& units_;
  ShardGroups groups_;
  at::Device device_;
  std::vector<at::Tensor> flats_;  // By unit, {numel}, while summoned; undefined where not `here`.
};

}  // namespace accelerate::detail
