#include "accelerate/formats/shards/distcp_metadata.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {
namespace {

using detail::attribute_of;
using detail::is_call_of;
using detail::PickleNode;
using detail::printable;
using detail::shape_text;
using detail::tensor_label;
using Kind = PickleNode::Kind;

constexpr std::string_view kTensorItem =
    "torch.distributed.checkpoint.metadata.TensorStorageMetadata";
constexpr std::string_view kBytesItem =
    "torch.distributed.checkpoint.metadata.BytesStorageMetadata";

// Sorted, as read_pickle wants them.
constexpr std::array<std::string_view, 9> kClasses = {
    "torch.distributed.checkpoint.filesystem._StorageInfo",
    kBytesItem,
    "torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata.Metadata",
    "torch.distributed.checkpoint.metadata.MetadataIndex",
    "torch.distributed.checkpoint.metadata.StorageMeta",
    "torch.distributed.checkpoint.metadata.TensorProperties",
    kTensorItem,
    "torch.distributed.checkpoint.planner.SavePlan"};

// The path at which the checkpoint was saved is part of it, but is not used.
constexpr std::array<std::string_view, 9> kFunctions = {
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.WindowsPath",
    "torch.Size",
    "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
    "torch.serialization._get_layout"};

std::vector<std::string_view> globals_of_metadata() {
  std::vector<std::string_view> names(kClasses.begin(), kClasses.end());
  names.insert(names.end(), kFunctions.begin(), kFunctions.end());
  for (const auto& dtype : detail::dtype_names()) names.push_back(dtype.global);
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void refuse_metadata(const std::string& why) {
  throw CheckpointError("it " + why);
}

const PickleNode& need(const PickleNode& object, std::string_view name, const std::string& of) {
  if (const PickleNode* found = attribute_of(object, name)) return *found;
  refuse_metadata("has no '" + std::string(name) + "' " + of);
}

std::vector<std::int64_t> size_of(const PickleNode& node, const std::string& name) {
  const PickleNode* tuple = &node;
  if (is_call_of(node, "torch.Size") && node.items[1]->items.size() == 1)
    tuple = node.items[1]->items[0];
  std::vector<std::int64_t> sizes;
  if (tuple->kind != Kind::tuple || tuple->items.size() > 64)
    refuse_metadata("has a shape or offset of " + tensor_label(name) + " that is no torch.Size");
  for (const PickleNode* item : tuple->items) {
    if (item->kind != Kind::integer || item->integer < 0)
      refuse_metadata("has a shape or offset of " + tensor_label(name) +
                      " with something other than a number from 0 on");
    sizes.push_back(item->integer);
  }
  return sizes;
}

DType dtype_named(const PickleNode& node, const std::string& name) {
  const PickleNode& properties = need(node, "properties", "of " + tensor_label(name));
  const PickleNode* state = properties.kind == Kind::call ? properties.state : nullptr;
  const bool is_tuple = state != nullptr && state->kind == Kind::tuple && !state->items.empty();
  const std::string_view global = is_tuple ? state->items[0]->text : std::string_view();
  const auto found = std::ranges::find(detail::dtype_names(), global, &detail::TorchName::global);
  if (found == detail::dtype_names().end())
    refuse_metadata("does not say of which type " + tensor_label(name) + " is");
  if (!found->dtype)
    refuse_metadata("says that " + tensor_label(name) + " is of " + std::string(global) +
                    ", which our formats cannot hold");
  return *found->dtype;
}

// --- places --------------------------------------------------------------------------------------

// A name and the offset of a part; no offset for what is not a tensor.
using Key = std::pair<std::string, std::vector<std::int64_t>>;
using Places = std::map<Key, DistcpPlace>;

std::uint64_t bytes_at(const PickleNode& info, std::string_view field, const std::string& name) {
  const PickleNode& number = need(info, field, "of '" + name + "'");
  if (number.kind != Kind::integer || number.integer < 0)
    refuse_metadata("has a '" + std::string(field) + "' of " + printable(name) +
                    " that is not a number of bytes from 0 to 2^63 - 1");
  return static_cast<std::uint64_t>(number.integer);
}

bool is_plain(std::string_view file) {
  return !file.empty() && file != "." && file != ".." &&
         file.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

DistcpPlace place_of(const PickleNode& info, const std::string& name) {
  const PickleNode& file = need(info, "relative_path", "of '" + name + "'");
  if (file.kind != Kind::text || !is_plain(file.text))
    refuse_metadata("says that " + printable(name) + " lies in " + printable(file.text) +
                    "; only the name of a file in the same folder is allowed");
  if (const PickleNode* transforms = attribute_of(info, "transform_descriptors");
      transforms != nullptr && !transforms->items.empty()) {
    const PickleNode& first = *transforms->items[0];
    refuse_metadata("says that " + printable(name) + " was changed by the extension " +
                    printable(first.kind == Kind::text ? first.text : "?") +
                    ", such as compression, which is not read: save it without extensions");
  }
  return {std::string(file.text), bytes_at(info, "offset", name), bytes_at(info, "length", name)};
}

Places places_of(const PickleNode& metadata) {
  const PickleNode& all = need(metadata, "storage_data", "that says where its parts lie");
  if (all.kind != Kind::dict)
    refuse_metadata("has no 'storage_data' that says where its parts lie");
  Places places;
  for (std::size_t i = 0; i + 1 < all.items.size(); i += 2) {
    const PickleNode& name = need(*all.items[i], "fqn", "in a key of its 'storage_data'");
    if (name.kind != Kind::text) refuse_metadata("has a name that is no text");
    Key key{std::string(name.text), {}};
    const PickleNode* offset = attribute_of(*all.items[i], "offset");
    if (offset != nullptr && offset->kind != Kind::none) key.second = size_of(*offset, key.first);
    DistcpPlace place = place_of(*all.items[i + 1], key.first);
    if (!places.emplace(key, std::move(place)).second)
      refuse_metadata("has two places for " + printable(key.first) + " at " +
                      shape_text(key.second));
  }
  return places;
}

// --- items ---------------------------------------------------------------------------------------

DistcpTensor tensor_of(const PickleNode& node, const std::string& name, const Places& places) {
  const std::string of = "of " + tensor_label(name);
  DistcpTensor tensor{{name, dtype_named(node, name), size_of(need(node, "size", of), name)}};
  const PickleNode& chunks = need(node, "chunks", of);
  if (chunks.kind != Kind::list) refuse_metadata("has no list of the chunks " + of);
  for (const PickleNode* chunk : chunks.items) {
    DistcpPart part{
        {size_of(need(*chunk, "offsets", of), name), size_of(need(*chunk, "sizes", of), name)}, {}};
    if (part.tile.empty()) continue;  // A rank that got no rows. It may have no place.
    const auto found = places.find({name, part.tile.offsets});
    if (found == places.end())
      refuse_metadata("has no place for the part of " + tensor_label(name) + " at " +
                      shape_text(part.tile.offsets));
    part.place = found->second;
    tensor.parts.push_back(std::move(part));
  }
  return tensor;
}

std::vector<std::string> path_of(const PickleNode& steps, std::string_view name) {
  std::vector<std::string> path;
  for (const PickleNode* step : steps.items) {
    if (step->kind == Kind::text) {
      path.emplace_back(step->text);
    } else if (step->kind == Kind::integer) {
      path.push_back(std::to_string(step->integer));
    } else {
      refuse_metadata("has keys of " + printable(name) + " that are neither texts nor numbers");
    }
  }
  if (steps.kind != Kind::tuple || path.empty())
    refuse_metadata("has no tuple of keys for " + printable(name));
  return path;
}

void add_paths(const PickleNode& metadata, DistcpMetadata& out) {
  const PickleNode* planned = attribute_of(metadata, "planner_data");
  if (planned == nullptr || planned->kind != Kind::dict) return;
  for (std::size_t i = 0; i + 1 < planned->items.size(); i += 2) {
    const PickleNode& name = *planned->items[i];
    if (name.kind != Kind::text) refuse_metadata("has 'planner_data' of a name that is no text");
    out.paths[std::string(name.text)] = path_of(*planned->items[i + 1], name.text);
  }
}

DistcpMetadata convert(const PickleNode& root) {
  if (!is_call_of(root, "torch.distributed.checkpoint.metadata.Metadata"))
    refuse_metadata("is a pickle, but not one of torch.distributed.checkpoint's Metadata");
  const Places places = places_of(root);
  const PickleNode& items = need(root, "state_dict_metadata", "that lists its tensors");
  if (items.kind != Kind::dict) refuse_metadata("has no dict of its tensors");
  DistcpMetadata metadata;
  std::set<std::string> names;
  for (std::size_t i = 0; i + 1 < items.items.size(); i += 2) {
    const PickleNode& item = *items.items[i + 1];
    if (items.items[i]->kind != Kind::text) refuse_metadata("has a name that is no text");
    const std::string name(items.items[i]->text);
    if (!names.insert(name).second) refuse_metadata("lists " + printable(name) + " twice");
    if (is_call_of(item, kTensorItem)) {
      metadata.tensors.push_back(tensor_of(item, name, places));
    } else if (is_call_of(item, kBytesItem)) {
      const auto found = places.find({name, {}});
      if (found == places.end()) refuse_metadata("has no place for " + printable(name));
      metadata.values.emplace(name, found->second);
    } else {
      refuse_metadata("lists " + printable(name) + ", which is neither a tensor nor bytes");
    }
  }
  add_paths(root, metadata);
  return metadata;
}

}  // namespace

DistcpMetadata read_distcp_metadata(std::span<const std::byte> bytes) {
  static const auto kAllowed = globals_of_metadata();
  static const auto kSorted = [] {
    auto names = kClasses;
    std::ranges::sort(names);
    return names;
  }();
  const auto pickle = detail::read_pickle(bytes, kAllowed, kSorted);
  return convert(*pickle.root);
}

}  // namespace accelerate
