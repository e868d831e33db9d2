#include "accelerate/checkpoint/sharded_files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/objects.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

constexpr std::string_view kExtension = ".safetensors";

std::string stem_of(const PlannedFile& file) {
  return file.name.substr(0, file.name.size() - kExtension.size());
}

bool holds_tensors(const PlannedFile& file) {
  return file.name.ends_with(kExtension);
}

// Equal on two ranks if the file, name, dtype, shape and content of the tensor are equal.
std::uint64_t digest(const PlannedFile& file, const NamedTensor& item) {
  Checksum sum;
  std::string label = file.name + '\0' + item.name + '\0';
  label += dtype_name(to_dtype(item.tensor.scalar_type()));
  for (const std::int64_t size : item.tensor.sizes()) label += ',' + std::to_string(size);
  sum.update(label);
  for_each_piece(item.tensor, [&](std::span<const std::byte> bytes) { sum.update(bytes); });
  return sum.value();
}

// Equal on two ranks if both have this part.
std::uint64_t place_of(const PlannedFile& file, const LocalShard& shard) {
  return checksum(file.name + '\0' + shard.name + '\0' + describe_ranges(shard.tile.ranges()));
}

at::Tensor part_of(const at::Tensor& whole, const TensorTile& tile) {
  at::Tensor part = whole.detach();
  for (std::size_t d = 0; d < tile.sizes.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), tile.offsets[d], tile.sizes[d]);
  return part;
}

LocalShard whole_shard(const NamedTensor& item) {
  const auto shape = tensor_specs({item}).front().shape;
  return {item.name, item.tensor, whole_tile(shape), shape};
}

// A tensor of packed pairs has another shape in files than here, so it is never cut.
bool may_be_cut(const at::Tensor& tensor) {
  return tensor.scalar_type() != at::kFloat4_e2m1fn_x2;
}

TensorPart checked_part(const std::string& stem, const LocalShard& shard) {
  const auto spec = tensor_specs({{shard.name, shard.tensor}}).front();
  if (spec.shape != shard.tile.sizes)
    throw UsageError("the shard " + describe_ranges(shard.tile.ranges()) + " of '" + shard.name +
                     "' has a tensor of another shape");
  return {{name_in_shards(stem, shard.name), spec.dtype, shard.global_shape}, shard.tile};
}

}  // namespace

std::vector<PlannedFile> plan_shards(const std::string& stem, int rank,
                                     const std::vector<LocalShard>& shards) {
  std::vector<TensorPart> parts;
  for (const auto& shard : shards) parts.push_back(checked_part(stem, shard));
  std::vector<PlannedFile> planned;
  for (auto& file : plan_shard_files(stem, static_cast<std::size_t>(rank), parts)) {
    PlannedFile& next = planned.emplace_back();
    next.name = file.file_name;
    next.metadata = std::move(file.metadata);
    for (std::size_t i = 0; i < file.parts.size(); ++i)
      next.tensors.push_back({file.specs[i].name, shards[file.parts[i]].tensor});
  }
  return planned;
}

ShardedPlan::ShardedPlan(std::vector<PlannedFile> planned) : planned_(std::move(planned)) {
  for (const auto& file : planned_) {
    auto& digests = digests_.emplace_back();
    if (file.one_rank) continue;
    for (const auto& item : file.tensors) digests.push_back(digest(file, item));
  }
  for (const auto& file : planned_) {
    auto& places = places_.emplace_back();
    for (const auto& shard : file.shards) places.push_back(place_of(file, shard));
  }
}

void ShardedPlan::agree(Communicator& ranks) {
  rank_ = ranks.rank();
  ranks_ = ranks.size();
  const auto flat = [](const std::vector<std::vector<std::uint64_t>>& of_files) {
    std::vector<std::uint64_t> all;
    for (const auto& some : of_files) all.insert(all.end(), some.begin(), some.end());
    return all;
  };
  using Has = std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>>;
  std::map<std::uint64_t, int> seen;
  std::map<std::uint64_t, std::vector<int>> holders;  // The same on all ranks.
  int rank = 0;
  for (const auto& [digests, places] : gather_object(ranks, Has(flat(digests_), flat(places_)))) {
    for (const std::uint64_t one : digests) ++seen[one];
    for (const std::uint64_t one : places) holders[one].push_back(rank);
    ++rank;
  }
  for (const auto& [one, times] : seen)
    if (times == ranks_) agreed_.insert(one);
  std::size_t turn = 0;
  for (const auto& [one, who] : holders)
    if (who[turn++ % who.size()] == rank_) written_here_.insert(one);
}

std::vector<LocalShard> ShardedPlan::share_of(std::size_t index) const {
  const PlannedFile& file = planned_[index];
  std::vector<LocalShard> shards;
  std::map<std::string, at::Tensor> alike;  // By name: the same order on all ranks.
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const auto& item = file.tensors[i];
    if (!file.one_rank && agreed_.contains(digests_[index][i]) && may_be_cut(item.tensor)) {
      alike.emplace(item.name, item.tensor);
    } else if (file.one_rank || rank_ == 0) {
      shards.push_back(whole_shard(item));
    }
  }
  std::vector<NamedTensor> items;
  for (const auto& [name, tensor] : alike) items.push_back({name, tensor});
  const auto dealt = deal_to_ranks(tensor_specs(items), static_cast<std::size_t>(ranks_));
  for (const auto& part : dealt[static_cast<std::size_t>(rank_)])
    shards.push_back({part.name, part_of(alike.at(part.name), part.tile), part.tile, part.shape});
  for (std::size_t i = 0; i < file.shards.size(); ++i)
    if (written_here_.contains(places_[index][i])) shards.push_back(file.shards[i]);
  return shards;
}

std::vector<PlannedFile> ShardedPlan::share() const {
  std::vector<PlannedFile> share;
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    const PlannedFile& file = planned_[i];
    if (!holds_tensors(file)) {
      if (file.one_rank || rank_ == 0) share.push_back(file);
      continue;
    }
    for (auto& shard : plan_shards(stem_of(file), rank_, share_of(i)))
      share.push_back(std::move(shard));
    // The empty file records that there was such a model.
    if (file.tensors.empty() && file.shards.empty() && rank_ == 0)
      share.push_back({.name = ShardFileName{.stem = stem_of(file)}.text()});
  }
  return share;
}

std::vector<std::filesystem::path> tensor_files(const std::filesystem::path& folder,
                                                const Manifest& manifest, const std::string& stem) {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : manifest.files) {
    const auto shard = ShardFileName::parse(file.name);
    if (shard ? shard->stem == stem : file.name == stem + std::string(kExtension))
      paths.push_back(folder / file.name);
  }
  return paths;
}

std::vector<NamedTensor> ShardedTensors::outlines() const {
  std::vector<NamedTensor> all;
  for (const auto& tensor : catalogue_.tensors()) {
    const auto options = at::TensorOptions(to_scalar_type(tensor.dtype)).device(at::kMeta);
    all.push_back({name_from_shards(stem_, tensor.name),
                   at::empty(from_stored_shape(tensor.dtype, tensor.shape), options)});
  }
  return all;
}

const ShardedTensor& ShardedTensors::find(const std::string& name) const {
  const auto* told_apart = catalogue_.find(name_in_shards(stem_, name));
  return told_apart != nullptr ? *told_apart : catalogue_.at(name);
}

at::Tensor ShardedTensors::read(const std::string& name) const {
  const ShardedTensor& tensor = find(name);
  const ShardPiece* piece = tensor.whole();
  const bool in_place =
      piece != nullptr && !piece->bytes.empty() && StoredTensor{{tensor}, piece->bytes}.aligned();
  if (!in_place) return load(name);
  return at::from_blob(
      const_cast<std::byte*>(piece->bytes.data()), from_stored_shape(tensor.dtype, tensor.shape),
      [content = catalogue_.content(*piece)](void*) {}, to_scalar_type(tensor.dtype));
}

at::Tensor ShardedTensors::load(const std::string& name) const {
  const ShardedTensor& tensor = find(name);
  at::Tensor copy =
      at::empty(from_stored_shape(tensor.dtype, tensor.shape), to_scalar_type(tensor.dtype));
  ShardCatalogue::read(tensor, {},
                       std::span(static_cast<std::byte*>(copy.mutable_data_ptr()), copy.nbytes()));
  return copy;
}

at::Tensor ShardedTensors::load_range(const std::string& name, std::int64_t begin,
                                      std::int64_t numel) const {
  const ShardedTensor& tensor = find(name);
  at::Tensor copy = at::empty({numel}, to_scalar_type(tensor.dtype));
  auto* out = static_cast<std::byte*>(copy.mutable_data_ptr());
  for (const TensorTile& tile : tiles_of_range(tensor.shape, begin, begin + numel)) {
    const auto bytes =
        static_cast<std::size_t>(c10::multiply_integers(tile.sizes)) * copy.element_size();
    ShardCatalogue::read(tensor, tile.ranges(), std::span(out, bytes));
    out += bytes;
  }
  return copy;
}

}  // namespace accelerate
