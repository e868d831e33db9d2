// Which tensors of a checkpoint are parts, and of what: from the engine's flat ranges to the tiles
// of files, and back.
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

/// What `elements`, which lie as those of `shard` do, are of a tensor `name` of the whole's shape:
/// tiles, none when there are none of some. Views, no copies. Throws UsageError for a range that
/// leaves the whole, and `elements` that have not the shape of shard.local.
[[nodiscard]] std::vector<LocalShard> tiles_of(const NamedShard& shard, const std::string& name,
                                               const at::Tensor& elements);

/// The shards behind the tensors of a state, which are under "state.<parameter>.".
class StateShards {
 public:
  StateShards() = default;
  explicit StateShards(const std::vector<NamedShard>& shards);

  /// Of the tensor at `place`, "state.fc.weight.exp_avg"; null for others.
  [[nodiscard]] const NamedShard* find(std::string_view place) const;

  /// The tensors of `file` that are parts become its shards.
  void divide(PlannedFile& file) const;
  /// Of the tensors of `state` that are whole, the parts.
  void cut(StateDict& state) const;

 private:
  std::map<std::string, NamedShard, std::less<>> by_name_;
};

}  // namespace accelerate
