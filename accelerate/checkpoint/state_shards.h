// Finds out which tensors of a checkpoint are parts of which whole. Converts the engine's flat
// ranges to the tiles of files, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/tensor/named_shard.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// Returns the tiles that `elements` cover of a tensor `name` that has the whole's shape.
/// `elements` lie as the elements of `shard` do; if there are none, there are no tiles. Returns
/// views, without copies. Throws UsageError for a range that exceeds the whole, and if `elements`
/// do not have the shape of shard.local.
[[nodiscard]] std::vector<LocalShard> tiles_of(const NamedShard& shard, const std::string& name,
                                               const at::Tensor& elements);

/// The shards of the tensors of a state, which are named "state.<parameter>.<field>".
class StateShards {
 public:
  StateShards() = default;
  explicit StateShards(const std::vector<NamedShard>& shards);

  /// Returns the shard of the tensor at `place`, "state.fc.weight.exp_avg"; null for other tensors.
  [[nodiscard]] const NamedShard* find(std::string_view place) const;

  /// Moves the tensors of `file` that are parts to its shards.
  void divide(PlannedFile& file) const;
  /// Replaces the whole tensors of `state` that have shards by their parts.
  void cut(StateDict& state) const;

 private:
  std::map<std::string, NamedShard, std::less<>> by_name_;
};

}  // namespace accelerate
