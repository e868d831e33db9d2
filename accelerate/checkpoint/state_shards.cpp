#include "accelerate/checkpoint/state_shards.h"

#include <c10/util/accumulate.h>

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace accelerate {

std::vector<LocalShard> tiles_of(const NamedShard& shard, const std::string& name,
                                 const at::Tensor& elements) {
  if (elements.sizes() != shard.local.sizes() || elements.dim() != 1)
    throw UsageError("the part of '" + name + "' is " + StateDict(elements).describe() +
                     "; the part of '" + shard.name + "' is " + StateDict(shard.local).describe());
  const at::Tensor flat = elements.detach();
  if (c10::multiply_integers(shard.shape) == 0)
    return {{name, flat.view(shard.shape), whole_tile(shard.shape), shard.shape}};
  std::vector<LocalShard> tiles;
  if (flat.numel() == 0) return tiles;
  std::int64_t done = 0;
  for (auto& tile : tiles_of_range(shard.shape, shard.begin, shard.begin + flat.numel())) {
    const std::int64_t numel = c10::multiply_integers(tile.sizes);
    const at::Tensor part = flat.narrow(0, done, numel).view(tile.sizes);
    tiles.push_back({name, part, std::move(tile), shard.shape});
    done += numel;
  }
  return tiles;
}

StateShards::StateShards(const std::vector<NamedShard>& shards) {
  for (const auto& shard : shards) by_name_.emplace(shard.name, shard);
}

// Finds the longest parameter name that the place begins with; fields may contain dots, too.
const NamedShard* StateShards::find(std::string_view place) const {
  constexpr std::string_view kStates = "state.";
  if (by_name_.empty() || !place.starts_with(kStates)) return nullptr;
  place.remove_prefix(kStates.size());
  for (auto end = place.rfind('.'); end != std::string_view::npos; end = place.rfind('.')) {
    place = place.substr(0, end);
    if (const auto shard = by_name_.find(place); shard != by_name_.end()) return &shard->second;
  }
  return nullptr;
}

void StateShards::divide(PlannedFile& file) const {
  std::vector<NamedTensor> whole;
  for (auto& item : file.tensors) {
    const NamedShard* shard = find(item.name);
    if (shard == nullptr || item.tensor.sizes() != shard->local.sizes()) {
      whole.push_back(std::move(item));
      continue;
    }
    for (auto& tile : tiles_of(*shard, item.name, item.tensor)) {
      file.shards.push_back(std::move(tile));
    }
  }
  file.tensors = std::move(whole);
}

void StateShards::cut(StateDict& state) const {
  if (by_name_.empty()) return;
  state.for_each_tensor([this](const std::string& place, at::Tensor& tensor) {
    const NamedShard* shard = find(place);
    if (shard == nullptr || tensor.sizes() != shard->shape) return;
    const std::int64_t begin = shard->local.numel() == 0 ? 0 : shard->begin;
    tensor = tensor.reshape({-1}).narrow(0, begin, shard->local.numel());
  });
}

}  // namespace accelerate
