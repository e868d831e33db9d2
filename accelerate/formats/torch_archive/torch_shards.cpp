#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_convert.h"
#include "accelerate/formats/torch_archive/torch_tensor.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {
namespace {

using Kind = PickleNode::Kind;
using Arguments = std::span<PickleNode* const>;

constexpr std::string_view kShardedTensor =
    "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
constexpr std::array kDTensors = {std::string_view("torch.distributed._tensor.api.DTensor"),
                                  std::string_view("torch.distributed.tensor.DTensor"),
                                  std::string_view("torch.distributed.tensor._api.DTensor")};
constexpr std::string_view kShardPlacement = "torch.distributed.tensor.placement_types.Shard";
constexpr std::string_view kReplicatePlacement =
    "torch.distributed.tensor.placement_types.Replicate";

[[noreturn]] void refuse_shards(const std::string& why) {
  throw CheckpointError("its pickle has a tensor in parts " + why);
}

const PickleNode& need(const PickleNode& object, std::string_view name) {
  if (const PickleNode* found = attribute_of(object, name)) return *found;
  refuse_shards("without its '" + std::string(name) + "'");
}

bool is_sequence(const PickleNode& node) {
  return node.kind == Kind::list || node.kind == Kind::tuple;
}

// Reads a list or tuple of non-negative numbers, or a torch.Size of them.
std::vector<std::int64_t> numbers_of(const PickleNode& node, const char* what) {
  const PickleNode* found = &node;
  if (is_call_of(node, "torch.Size") && node.items[1]->items.size() == 1)
    found = node.items[1]->items[0];
  if (!is_sequence(*found)) refuse_shards(std::string("whose ") + what + " is no list of numbers");
  if (found->items.size() > 64)
    refuse_shards(std::string("whose ") + what + " has more than LibTorch's 64 dimensions");
  std::vector<std::int64_t> numbers;
  for (const PickleNode* item : found->items) {
    if (item->kind != Kind::integer || item->integer < 0)
      refuse_shards(std::string("whose ") + what + " is no list of numbers from 0 on");
    numbers.push_back(item->integer);
  }
  return numbers;
}

TorchTensor part_of(const PickleNode& node, const FindStorage& storages) {
  const Arguments arguments =
      node.kind == Kind::call ? Arguments(node.items[1]->items) : Arguments();
  if (is_call_of(node, "torch._utils._rebuild_tensor_v2") && arguments.size() >= 6 &&
      arguments.size() <= 7)
    return convert_tensor(arguments, storages);
  if (is_call_of(node, "torch._utils._rebuild_tensor_v3") && arguments.size() >= 7 &&
      arguments.size() <= 8)
    return convert_tensor_v3(arguments, storages);
  refuse_shards("whose part is not a plain tensor");
}

void add(TorchShards& shards, std::vector<std::int64_t> offsets, TorchTensor tensor) {
  bool inside = offsets.size() == shards.shape.size() && tensor.shape.size() == offsets.size();
  for (std::size_t d = 0; inside && d < offsets.size(); ++d)
    inside = offsets[d] <= shards.shape[d] && tensor.shape[d] <= shards.shape[d] - offsets[d];
  if (!inside)
    refuse_shards("of the shape " + shape_text(shards.shape) + ", and its part of the shape " +
                  shape_text(tensor.shape) + " at " + shape_text(offsets) + " leaves it");
  if (shards.parts.empty()) shards.dtype = tensor.dtype;
  if (tensor.dtype != shards.dtype) refuse_shards("whose parts are of two types");
  shards.parts.push_back({std::move(offsets), std::move(tensor)});
}

// --- ShardedTensor -------------------------------------------------------------------------------

DType dtype_named(const PickleNode& node) {
  const auto name = std::ranges::find(dtype_names(), node.text, &TorchName::global);
  if (node.kind != Kind::global || name == dtype_names().end() || !name->dtype)
    refuse_shards("whose type of elements our formats cannot hold");
  return *name->dtype;
}

// Reads (local shards, metadata, process group, sharding spec, …).
TorchShards sharded_tensor(const PickleNode& state, const FindStorage& storages) {
  if (state.kind != Kind::tuple || state.items.size() < 2 || !is_sequence(*state.items[0]))
    refuse_shards("of an unknown version of ShardedTensor");
  const PickleNode& metadata = *state.items[1];
  TorchShards shards{.shape = numbers_of(need(metadata, "size"), "size")};
  const PickleNode& properties = need(metadata, "tensor_properties");
  if (properties.kind == Kind::call && properties.state != nullptr &&
      properties.state->kind == Kind::tuple && !properties.state->items.empty())
    shards.dtype = dtype_named(*properties.state->items[0]);
  for (const PickleNode* shard : state.items[0]->items) {
    const PickleNode& place = need(*shard, "metadata");
    auto offsets = numbers_of(need(place, "shard_offsets"), "offset");
    TorchTensor tensor = part_of(need(*shard, "tensor"), storages);
    if (tensor.shape != numbers_of(need(place, "shard_sizes"), "part's shape"))
      refuse_shards("whose part has the shape " + shape_text(tensor.shape) +
                    ", not the shape that its place says");
    add(shards, std::move(offsets), std::move(tensor));
  }
  return shards;
}

// --- DTensor -------------------------------------------------------------------------------------

// The ranks among which a tensor is divided: for each dimension of their mesh, how many there are
// and which one this is.
struct Mesh {
  std::vector<std::int64_t> sizes, coordinate;
};

// Reads the size of one dimension of the mesh: a number, or the numbers of a nested shape.
std::int64_t axis_size(const PickleNode& shape) {
  if (shape.kind == Kind::integer && shape.integer > 0) return shape.integer;
  std::int64_t product = 1;
  for (const std::int64_t size : numbers_of(shape, "mesh"))
    if (__builtin_mul_overflow(product, size, &product)) refuse_shards("whose mesh is too large");
  return product;
}

Mesh mesh_of(const PickleNode& node, const FindStorage& storages) {
  Mesh mesh{.sizes = {},
            .coordinate = numbers_of(need(node, "_coordinate_on_dim"), "place in the mesh")};
  if (const PickleNode* layout = attribute_of(node, "_layout")) {
    const PickleNode& axes = need(*layout, "axes");
    if (!is_sequence(axes)) refuse_shards("whose mesh is of an unknown version");
    for (const PickleNode* axis : axes.items) mesh.sizes.push_back(axis_size(need(*axis, "shape")));
  } else {  // PyTorch before 2.10 keeps the ranks as a tensor.
    mesh.sizes = part_of(need(node, "mesh"), storages).shape;
  }
  bool fits = mesh.sizes.size() == mesh.coordinate.size();
  for (std::size_t i = 0; fits && i < mesh.sizes.size(); ++i)
    fits = mesh.coordinate[i] < mesh.sizes[i];
  if (!fits) refuse_shards("whose place is not in its mesh");
  return mesh;
}

// Narrows the range of a dimension to the part of one of `count` ranks, as torch.chunk does.
void take_chunk(std::int64_t& offset, std::int64_t& size, std::int64_t count, std::int64_t rank) {
  const std::int64_t most = size / count + (size % count != 0 ? 1 : 0);
  const std::int64_t begin =
      most == 0 ? 0 : std::min(size, rank > size / most ? size : rank * most);
  offset += begin;
  size = std::min(most, size - begin);
}

TorchShards d_tensor(const PickleNode& object, const FindStorage& storages) {
  const PickleNode& spec = need(object, "_spec");
  const PickleNode& meta = need(spec, "tensor_meta");
  if (meta.kind != Kind::call || meta.items[1]->items.empty())
    refuse_shards("of an unknown version of DTensor");
  TorchShards shards{.shape = numbers_of(*meta.items[1]->items[0], "shape")};
  const Mesh mesh = mesh_of(need(spec, "mesh"), storages);
  const PickleNode& placements = need(spec, "placements");
  if (!is_sequence(placements) || placements.items.size() != mesh.sizes.size())
    refuse_shards("that is not placed on each dimension of its mesh");
  std::vector<std::int64_t> offsets(shards.shape.size(), 0);
  std::vector<std::int64_t> sizes = shards.shape;
  for (std::size_t i = 0; i < mesh.sizes.size(); ++i) {
    const PickleNode& placement = *placements.items[i];
    if (is_call_of(placement, kReplicatePlacement)) continue;
    if (!is_call_of(placement, kShardPlacement))
      refuse_shards("that is neither cut into rows nor copied, but placed by " +
                    printable(placement.kind == Kind::call ? placement.items[0]->text : "?"));
    const PickleNode& dim = need(placement, "dim");
    if (dim.kind != Kind::integer || dim.integer < 0 ||
        static_cast<std::size_t>(dim.integer) >= sizes.size())
      refuse_shards("that is cut along a dimension that it lacks");
    const auto d = static_cast<std::size_t>(dim.integer);
    take_chunk(offsets[d], sizes[d], mesh.sizes[i], mesh.coordinate[i]);
  }
  TorchTensor tensor = part_of(need(object, "_local_tensor"), storages);
  if (tensor.shape != sizes)
    refuse_shards("of the shape " + shape_text(shards.shape) +
                  ", whose part should have the shape " + shape_text(sizes) + " and has " +
                  shape_text(tensor.shape));
  add(shards, std::move(offsets), std::move(tensor));
  return shards;
}

constexpr std::array kClasses = {
    kShardedTensor,
    std::string_view("torch.distributed._mesh_layout._FlatLayout"),
    std::string_view("torch.distributed._mesh_layout._MeshLayout"),
    std::string_view("torch.distributed._shard.metadata.ShardMetadata"),
    std::string_view("torch.distributed._shard.sharded_tensor.metadata.ShardedTensorMetadata"),
    std::string_view("torch.distributed._shard.sharded_tensor.metadata.TensorProperties"),
    std::string_view("torch.distributed._shard.sharded_tensor.shard.Shard"),
    std::string_view(
        "torch.distributed._shard.sharding_spec.chunk_sharding_spec.ChunkShardingSpec"),
    std::string_view("torch.distributed._shard.sharding_spec.api.EnumerableShardingSpec"),
    std::string_view("torch.distributed.device_mesh.DeviceMesh"),
    std::string_view("torch.distributed.remote_device._remote_device"),
    std::string_view("torch.distributed.tensor._dtensor_spec.DTensorSpec"),
    std::string_view("torch.distributed.tensor._dtensor_spec.ShardOrderEntry"),
    std::string_view("torch.distributed.tensor._dtensor_spec.TensorMeta"),
    std::string_view("torch.distributed.tensor.placement_types.Partial"),
    std::string_view("torch.distributed.tensor.placement_types._StridedShard"),
    kReplicatePlacement,
    kShardPlacement};

// What is named beside the classes.
constexpr std::array kFunctions = {
    std::string_view("__builtin__.getattr"),
    std::string_view("builtins.getattr"),
    std::string_view("torch.Tensor"),
    std::string_view("torch._utils._rebuild_wrapper_subclass"),
    std::string_view("torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING"),
    std::string_view("torch.serialization._get_layout")};

std::vector<std::string_view> sorted(std::vector<std::string_view> names) {
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::span<const std::string_view> sharded_classes() {
  static const auto names = sorted({kClasses.begin(), kClasses.end()});
  return names;
}

std::span<const std::string_view> sharded_globals() {
  static const auto names = [] {
    std::vector<std::string_view> all(kClasses.begin(), kClasses.end());
    all.insert(all.end(), kDTensors.begin(), kDTensors.end());
    all.insert(all.end(), kFunctions.begin(), kFunctions.end());
    return sorted(std::move(all));
  }();
  return names;
}

TorchShards convert_shards(Arguments arguments, const FindStorage& storages) {
  const std::string_view type = arguments[1]->text;
  if (arguments[1]->kind == Kind::global) {
    if (type == kShardedTensor) return sharded_tensor(*arguments[3], storages);
    if (std::ranges::find(kDTensors, type) != kDTensors.end()) {
      // The state has the form of an object's state.
      PickleNode object{.kind = Kind::call};
      object.state = arguments[3];
      return d_tensor(object, storages);
    }
  }
  refuse_pickle("has a tensor of the class " + printable(type) + ", which is not read");
}

}  // namespace accelerate::detail
