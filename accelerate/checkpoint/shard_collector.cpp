#include "accelerate/checkpoint/shard_collector.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/lost_pages.h"
#include "accelerate/comm/objects.h"
#include "accelerate/parallel/offload/offload_store.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {
namespace {

using Numbers = std::vector<std::int64_t>;
/// Name, scalar type, shape of the whole, offsets and sizes of the part.
using Described = std::tuple<std::string, int, Numbers, Numbers, Numbers>;

constexpr std::int64_t kEnd = -1;

std::vector<Described> described(const std::vector<LocalShard>& shards) {
  std::vector<Described> all;
  for (const auto& [name, tensor, tile, shape] : shards)
    all.emplace_back(name, static_cast<int>(tensor.scalar_type()), shape, tile.offsets, tile.sizes);
  return all;
}

at::Tensor narrowed(at::Tensor whole, const TensorTile& tile) {
  for (std::size_t d = 0; d < tile.sizes.size(); ++d)
    whole = whole.narrow(static_cast<std::int64_t>(d), tile.offsets[d], tile.sizes[d]);
  return whole;
}

}  // namespace

ShardCollector::ShardCollector(Communicator& ranks, std::vector<LocalShard> shards)
    : ranks_(ranks), shards_(std::move(shards)) {
  using Said = std::pair<int, std::vector<Described>>;
  for (const auto& [rank, all] : gather_object(ranks, Said(ranks.rank(), described(shards_)))) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [name, type, shape, offsets, sizes] = all[i];
      const auto options = at::TensorOptions(static_cast<at::ScalarType>(type)).device(at::kMeta);
      add(rank, i, {name, at::empty(shape, options)}, {offsets, sizes});
    }
  }
}

// Records a part. The first rank that has it sends it.
void ShardCollector::add(int rank, std::size_t index, const NamedTensor& outline, TensorTile tile) {
  const auto [entry, fresh] = numbers_.emplace(outline.name, outlines_.size());
  if (fresh) {
    outlines_.push_back(outline);
    parts_.emplace_back();
  }
  const at::Tensor& known = outlines_[entry->second].tensor;
  if (known.sizes() != outline.tensor.sizes() || known.dtype() != outline.tensor.dtype())
    throw CheckpointError(
        "'" + outline.name + "' is part of " + StateDict(outline.tensor).describe() + " on rank " +
        std::to_string(rank) + " and of " + StateDict(known).describe() + " on an earlier rank");
  auto& parts = parts_[entry->second];
  const bool there = std::ranges::any_of(parts, [&](const Part& p) { return p.tile == tile; });
  if (!there) parts.push_back({rank, index, std::move(tile)});
}

void ShardCollector::together(const std::function<void()>& step) {
  if (ranks_.rank() != 0) {
    serve();
    return step();
  }
  try {
    step();
  } catch (const CommError&) {
    throw;  // No rank is left to be told.
  } catch (...) {
    ask(kEnd);
    throw;
  }
  ask(kEnd);
}

void ShardCollector::ask(std::int64_t number) {
  at::Tensor message = at::empty({1}, at::kLong);
  *message.mutable_data_ptr<std::int64_t>() = number;
  ranks_.broadcast(message, 0).wait();
}

void ShardCollector::serve() {
  at::Tensor message = at::empty({1}, at::kLong);
  for (;;) {
    ranks_.broadcast(message, 0).wait();
    const auto number = *message.const_data_ptr<std::int64_t>();
    if (number == kEnd) return;
    for (const Part& part : parts_.at(static_cast<std::size_t>(number))) {
      if (part.rank != ranks_.rank() || part.tile.empty()) continue;
      ranks_.send(in_memory(shards_[part.index].tensor), 0).wait();
    }
  }
}

// Returns a copy that can be sent. Parts that live in files may have lost pages, which rank 0 would
// take for zeros, or which the system cannot read: Gloo ends the process then.
at::Tensor ShardCollector::in_memory(const at::Tensor& part) {
  if (!detail::OffloadStore::holding(part)) return part.detach().contiguous();
  at::Tensor copy = part.detach().clone(at::MemoryFormat::Contiguous);
  try {
    check_for_lost_pages();
  } catch (const FileError& error) {
    ranks_.abort(describe(error));  // Rank 0 waits for this part.
    throw;
  }
  return copy;
}

at::Tensor ShardCollector::collect(const std::string& name) {
  const auto number = numbers_.find(name);
  if (number == numbers_.end()) throw CheckpointError("no rank has a part of '" + name + "'");
  const at::Tensor& outline = outlines_[number->second].tensor;
  at::Tensor whole = at::empty(outline.sizes(), outline.options().device(at::kCPU));
  ask(static_cast<std::int64_t>(number->second));
  for (const auto& [rank, index, tile] : parts_[number->second]) {
    if (tile.empty()) continue;
    at::Tensor part = narrowed(whole, tile);
    if (rank == ranks_.rank()) {
      part.copy_(shards_[index].tensor.detach());
      check_for_lost_pages();
    } else if (part.is_contiguous()) {
      ranks_.receive(part, rank).wait();
    } else {
      const at::Tensor received = at::empty(tile.sizes, whole.options());
      ranks_.receive(received, rank).wait();
      part.copy_(received);
    }
  }
  return whole;
}

std::shared_ptr<ShardCollector> plan_whole(std::vector<PlannedFile>& planned, Communicator& ranks) {
  const auto prefix_of = [](const PlannedFile& file) { return file.name + '/'; };
  std::vector<LocalShard> shards;
  for (auto& file : planned) {
    for (auto& shard : file.shards) {
      shard.name = prefix_of(file) + shard.name;
      shards.push_back(std::move(shard));
    }
    file.shards.clear();
  }
  auto collector = std::make_shared<ShardCollector>(ranks, std::move(shards));
  if (ranks.rank() != 0) {
    std::erase_if(planned, [](const PlannedFile& file) { return !file.one_rank; });
    return collector;
  }
  for (auto& file : planned) {
    const std::string prefix = prefix_of(file);
    for (const auto& [name, outline] : collector->outlines()) {
      if (name.starts_with(prefix)) file.tensors.push_back({name.substr(prefix.size()), outline});
    }
    file.fetch = [collector, prefix](const std::string& name) {
      return collector->collect(prefix + name);
    };
  }
  return collector;
}

}  // namespace accelerate
