#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/shards/row_major_parts.h"
#include "accelerate/formats/shards/sharded_state.h"
#include "accelerate/formats/torch_archive/torch_archive.h"

namespace accelerate {
namespace {

using Steps = std::vector<std::string>;

bool is_dict(const TorchValue& value) {
  return value.as<TorchDict>() != nullptr;
}

// Walks the states of the ranks and gathers their tensors and values.
class Gatherer {
 public:
  explicit Gatherer(detail::FlatParameters* flat) : flat_(flat) {}

  void add(const TorchArchive& archive) {
    path_ = archive.path();
    content_ = archive.content();
    file_ = parts_.add_file(path_, content_);
    if (!is_dict(archive.value()))
      throw CheckpointError("'" + path_.string() + "' holds " + archive.value().describe() +
                            ", not the state of a rank");
    seen_.clear();
    Steps steps;
    visit(archive.value(), steps);
    first_ = false;
  }

  ShardedState take(std::size_t ranks) {
    if (flat_ != nullptr) add_flat(ranks);
    for (auto& [name, shape_and_type] : divided_)
      if (!has_part_.contains(name))
        parts_.add_empty(name, shape_and_type.second, shape_and_type.first, path_);
    state_.tensors = std::move(parts_).assemble();
    return std::move(state_);
  }

 private:
  // A rank's file may have parameters by their own names too: its elements of them, without a shape.
  void add_flat(std::size_t ranks) {
    auto whole = parts_of_flat(ranks);
    std::set<std::string> names;
    for (const auto& part : whole) names.insert(part.name);
    std::erase_if(parts_.found, [&](const auto& part) { return names.contains(part.name); });
    for (auto& part : whole) parts_.found.push_back(std::move(part));
  }

  [[nodiscard]] std::vector<FoundPart> parts_of_flat(std::size_t ranks) const {
    try {
      return flat_->parts(ranks);
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("'" + path_.string() +
                                          "' and the files of the ranks before it do not fit");
    }
  }

  void visit(const TorchValue& value, Steps& steps) {
    if (const auto* dict = value.as<TorchDict>(); dict != nullptr && !dict->entries.empty()) {
      for (const auto& [key, item] : dict->entries) {
        steps.push_back(step_of(key));
        visit(item, steps);
        steps.pop_back();
      }
    } else if (value.as<TorchList>() != nullptr && !value.items().empty() &&
               std::ranges::all_of(value.items(), is_dict)) {
      for (std::size_t i = 0; i < value.items().size(); ++i) {
        steps.push_back(std::to_string(i));
        visit(value.items()[i], steps);
        steps.pop_back();
      }
    } else {
      add_leaf(value, steps);
    }
  }

  std::string step_of(const TorchValue& key) const {
    if (const auto* text = key.as<std::string>()) return *text;
    if (const auto* number = key.as<std::int64_t>()) return std::to_string(*number);
    throw CheckpointError("'" + path_.string() + "' has a dict whose key is " + key.describe());
  }

  void add_leaf(const TorchValue& value, const Steps& steps) {
    const std::string name = join(steps, ".");
    if (!seen_.insert(name).second)
      throw CheckpointError("'" + path_.string() + "' has two values called " +
                            detail::printable(name) + ": it is damaged");
    state_.paths.emplace(name, steps);
    if (const auto* shards = value.as<TorchShards>()) return add_shards(name, *shards);
    if (!first_) return;
    if (const auto* tensor = value.as<TorchTensor>()) {
      parts_.add(name, zeros(tensor->shape.size()), *tensor, file_, tensor->shape);
    } else {
      state_.values.emplace(name, SavedValue{value, content_});
    }
  }

  static std::vector<std::int64_t> zeros(std::size_t count) {
    return std::vector<std::int64_t>(count, 0);
  }

  // Several ranks may have the same part, as in hybrid sharding.
  void add_shards(const std::string& name, const TorchShards& shards) {
    const bool is_flat = detail::FlatParameters::is_flat(name);
    if (is_flat && flat_ != nullptr) return add_flat_part(name, shards);
    if (is_flat)
      throw CheckpointError(
          "'" + path_.string() +
          "' was saved with LOCAL_STATE_DICT: it has flat parameters, and not the shapes of the "
          "tensors in them. load_state, which knows the model, reads it. Or, in Python, load it "
          "and save it again with SHARDED_STATE_DICT or "
          "FULL_STATE_DICT");
    divided_.try_emplace(name, shards.shape, shards.dtype);
    for (const auto& [offsets, tensor] : shards.parts) {
      const bool empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
      if (empty || !tiles_.emplace(name, offsets, tensor.shape).second) continue;
      has_part_.insert(name);
      parts_.add(name, offsets, tensor, file_, shards.shape);
    }
  }

  void add_flat_part(const std::string& name, const TorchShards& shards) {
    if (shards.shape.size() != 1)
      throw CheckpointError("'" + path_.string() + "' has " +
                            count_of(shards.shape.size(), "dimension") + " of '" + name +
                            "'; a flat parameter has 1: it is damaged");
    try {
      flat_->add(name, shards.shape[0], shards, file_);
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("'" + path_.string() + "' does not fit the files of " +
                                          "the ranks before it");
    }
  }

  using Tile = std::tuple<std::string, std::vector<std::int64_t>, std::vector<std::int64_t>>;

  detail::FlatParameters* flat_;  // Null where nobody knows the model.
  ShardedState state_;
  RowMajorParts parts_;
  std::map<std::string, std::pair<std::vector<std::int64_t>, DType>> divided_;
  std::set<Tile> tiles_;
  std::set<std::string> has_part_, seen_;
  bool first_ = true;
  // The file that is being read.
  std::filesystem::path path_;
  std::shared_ptr<const FileContent> content_;
  std::size_t file_ = 0;
};

}  // namespace

ShardedState open_rank_files(const std::vector<std::filesystem::path>& paths, FileSystem& files,
                             detail::FlatParameters* flat) {
  if (paths.size() > ShardLimits::kFiles)
    throw CheckpointError("there are " + std::to_string(paths.size()) +
                          " files of ranks, at most " + std::to_string(ShardLimits::kFiles) +
                          " are allowed");
  Gatherer gatherer(flat);
  for (const auto& path : paths) gatherer.add(TorchArchive::open(path, files));
  return gatherer.take(paths.size());
}

}  // namespace accelerate
