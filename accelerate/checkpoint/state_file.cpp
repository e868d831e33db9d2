#include "accelerate/checkpoint/state_file.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/heap.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/parallel/offload/offload_store.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

constexpr DocumentLimits kLimits{.max_bytes = std::size_t{256} << 20, .max_depth = 64};
// A map with one of these keys stands for what JSON lacks.
constexpr const char* kTensor = "$tensor";
constexpr const char* kNumber = "$number";

Node tagged(const char* tag, std::string text) {
  return Node::map({{.key = tag, .value = Node::string(std::move(text))}});
}

Node special_number(double value) {
  if (std::isnan(value)) return tagged(kNumber, "NaN");
  return tagged(kNumber, value > 0 ? "Infinity" : "-Infinity");
}

// Refuses what the reader would refuse. `depth` counts the lists and maps around a value, and the
// value too if it is one.
void check_depth(int depth, const std::string& place) {
  constexpr std::size_t kShown = 80;
  if (depth <= kLimits.max_depth) return;
  throw CheckpointError("'" + std::string(fit_bytes(place, kShown)) + "' is nested deeper than " +
                        std::to_string(kLimits.max_depth) +
                        " levels. Each list and dictionary counts as a level, and so does a "
                        "tensor, NaN or infinity inside them. Flatten the state, or store it as "
                        "one tensor");
}

void check_size(std::size_t bytes) {
  if (bytes <= kLimits.max_bytes) return;
  throw CheckpointError("its numbers and texts make " + std::to_string(bytes) +
                        " bytes of JSON or more; allowed are " + std::to_string(kLimits.max_bytes) +
                        ". Keep what is long in a tensor, which has no limit");
}

// Turns a state into a tree of JSON and takes the tensors out of it.
class Flattener {
 public:
  Node node(const StateDict& state, const std::string& place, int depth = 1) {
    if (state.is_null()) return Node::null();
    if (state.holds<bool>()) return Node::boolean(state.to<bool>());
    if (state.holds<std::int64_t>()) return Node::integer(state.to<std::int64_t>());
    if (state.holds<double>() && std::isfinite(state.to<double>()))
      return Node::real(state.to<double>());
    if (state.holds<std::string>()) return Node::string(text(state.to<std::string>()));
    check_depth(depth, place);
    if (state.holds<double>()) return special_number(state.to<double>());
    if (state.holds<at::Tensor>()) return tensor(state.to<at::Tensor>(), place);
    const std::string prefix = place.empty() ? place : place + '.';
    if (state.holds<StateDict::List>()) {
      std::vector<Node> items;
      for (const auto& item : state.list())
        items.push_back(node(item, prefix + std::to_string(items.size()), depth + 1));
      return Node::sequence(std::move(items));
    }
    std::vector<NodeEntry> entries;
    for (const auto& [key, value] : state.dict()) {
      if (key.starts_with('$'))
        throw CheckpointError("the key '" + key +
                              "' of a state begins with '$', which is reserved");
      entries.push_back({.key = text(key), .value = node(value, prefix + key, depth + 1)});
    }
    return Node::map(std::move(entries));
  }

  std::vector<NamedTensor> tensors;

 private:
  // Refuses too much text before the JSON is made.
  std::string text(const std::string& value) {
    check_size(text_bytes_ += value.size());
    if (!is_utf8(value)) throw CheckpointError("a text of the state is not UTF-8");
    return value;
  }

  Node tensor(const at::Tensor& value, const std::string& place) {
    std::string name = place.empty() ? "state" : place;
    for (int i = 2; !names_.insert(name).second; ++i) name = place + "#" + std::to_string(i);
    tensors.push_back({name, value});
    return tagged(kTensor, name);
  }

  std::set<std::string> names_;
  std::size_t text_bytes_ = 0;
};

using Tensors = std::map<std::string, at::Tensor>;

double tagged_number(const std::string& text) {
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw CheckpointError("'" + text + "' is not a number; allowed are NaN, Infinity, -Infinity");
}

StateDict plain_scalar(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = parse_int(text)) return *integer;
  if (const auto real = parse_double(text); real && std::isfinite(*real)) return *real;
  throw CheckpointError("the number '" + text + "' is out of range");
}

StateDict state_of(const Node& node, const Tensors& tensors) {
  if (node.is_null()) return {};
  if (node.is_scalar()) return node.quoted ? StateDict(node.text) : plain_scalar(node.text);
  if (node.is_sequence()) {
    StateDict::List list;
    for (const auto& item : node.items) list.push_back(state_of(item, tensors));
    return list;
  }
  StateDict::Dict dict;
  for (const auto& [key, line, value] : node.entries) {
    if (!key.starts_with('$')) {
      dict.emplace(key, state_of(value, tensors));
      continue;
    }
    if (node.entries.size() != 1 || !value.is_scalar() || (key != kTensor && key != kNumber))
      throw CheckpointError("line " + std::to_string(line) + " has the key '" + key +
                            "', which this version does not know");
    if (key == kNumber) return tagged_number(value.text);
    const auto tensor = tensors.find(value.text);
    if (tensor == tensors.end())
      throw CheckpointError("its file of tensors has no '" + value.text + "'");
    return tensor->second;
  }
  return dict;
}

// Smaller tensors are not worth a file.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

// State of a parameter whose optimizer keeps it on disk does not fit into memory all at once.
at::Tensor out_of_memory(at::Tensor loaded, const at::Tensor& parameter) {
  const auto store = detail::OffloadStore::keeping_state_of(parameter);
  if (!store || loaded.nbytes() < kLargeBytes) return loaded;
  loaded = store->set_aside(loaded);
  return_freed_memory();
  return loaded;
}

bool mentions_tensors(const Node& node) {
  for (const auto& item : node.items)
    if (mentions_tensors(item)) return true;
  for (const auto& entry : node.entries)
    if (entry.key == kTensor || mentions_tensors(entry.value)) return true;
  return false;
}

}  // namespace

at::Tensor load_part(const ShardedTensors& stored, const NamedTensor& outline,
                     const std::string& place, const StateShards& shards) {
  const NamedShard* shard = shards.find(place);
  if (shard == nullptr || outline.tensor.sizes() != shard->shape) return stored.load(outline.name);
  const std::int64_t numel = shard->local.numel();
  return out_of_memory(stored.load_range(outline.name, numel == 0 ? 0 : shard->begin, numel),
                       shard->local);
}

std::vector<PlannedFile> plan_state(const std::string& stem, const StateDict& state) {
  std::vector<PlannedFile> planned;
  try {
    Flattener flattener;
    const Node node = flattener.node(state, "");
    (void)tensor_specs(flattener.tensors);  // Refuses here what could not be written.
    if (!flattener.tensors.empty())
      planned.push_back({.name = stem + ".safetensors", .tensors = std::move(flattener.tensors)});
    planned.push_back({.name = stem + ".json", .text = write_json(node)});
    check_size(planned.back().text.size());
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot save '" + stem + "'");
  }
  return planned;
}

StateDict read_state_file(FileSystem& files, const std::filesystem::path& folder,
                          const std::string& stem) {
  return read_state_file(files, folder, stem, {folder / (stem + ".safetensors")});
}

StateDict read_state_file(FileSystem& files, const std::filesystem::path& folder,
                          const std::string& stem,
                          const std::vector<std::filesystem::path>& tensor_files,
                          const StateShards& shards) {
  const auto json = folder / (stem + ".json");
  try {
    const Node node = read_json(read_file(files, json, kLimits.max_bytes), json.string(), kLimits);
    Tensors tensors;
    if (mentions_tensors(node)) {
      const ShardedTensors stored(stem, ShardCatalogue::open(tensor_files, files));
      for (const auto& [name, outline] : stored.outlines())
        tensors.emplace(name, load_part(stored, {name, outline}, name, shards));
    }
    return state_of(node, tensors);
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot read the state in " + json.string());
  }
}

}  // namespace accelerate
