// Whole values of a sharded model in the type of its optimizer, for what needs more than slices.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gradient_shards.h"

namespace accelerate::detail {

class WholeParameters {
 public:
  /// `device`: where whole values are.
  WholeParameters(Units& units, const ShardGroups& groups, at::Device device);

  /// Every parameter, one unit at a time. [collective]
  void for_each(const std::function<void(const std::string& name, const at::Tensor&)>& visit) const;

  /// The leaves are ordinary tensors from now on, over whole values; where `here` is false the rank
  /// only takes part. [collective] Throws CommError, and then they lie in shards.
  void summon(bool here);
  [[nodiscard]] bool are_summoned() const { return !flats_.empty(); }
  /// The leaves lie in shards again. Returns what they were laid over, {numel} of each unit,
  /// undefined where the rank had only taken part.
  std::vector<at::Tensor> dismiss();
  /// The same, with all that they hold, also in other memory that they were given meanwhile (by
  /// torch::load, set_data). [collective] Throws UsageError on all ranks, with the leaves in
  /// shards, for one that is of another shape or type.
  [[nodiscard]] std::vector<at::Tensor> take_back();
  /// This rank's slices of what take_back() returned become its slices. Inside an update of the
  /// model.
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
