#include "accelerate/formats/weights/weight_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

using detail::printable;

// Returns why a name cannot stand for a file beside the index; "" if it can.
std::string fault_of_file_name(std::string_view name) {
  constexpr std::string_view kForbidden = "/\\:";
  if (name.empty()) return "it is empty";
  if (name.size() > WeightIndexLimits::kFileNameBytes) return "it is longer than 255 bytes";
  if (name.front() == '.') return "it begins with a point";
  if (name.find_first_of(kForbidden) != std::string_view::npos) {
    return "it is a path: only a plain name of a file in the same folder is allowed";
  }
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(name, is_control)) return "it holds control characters";
  if (!is_utf8(name)) return "it is not UTF-8";
  return "";
}

void check_entry(const std::string& tensor, const std::string& file) {
  if (tensor.size() > WeightIndexLimits::kNameBytes) {
    throw CheckpointError("a tensor's name has " + std::to_string(tensor.size()) +
                          " bytes, at most " + std::to_string(WeightIndexLimits::kNameBytes) +
                          " are allowed: " + printable(tensor));
  }
  if (!is_utf8(tensor)) throw CheckpointError("a tensor's name is not UTF-8: " + printable(tensor));
  if (const std::string fault = fault_of_file_name(file); !fault.empty()) {
    throw CheckpointError("the file of " + detail::tensor_label(tensor) + " is " + printable(file) +
                          "; " + fault);
  }
}

const Node& need_map(const Node& document, const std::string& key) {
  const Node* value = document.find(key);
  if (value == nullptr) throw CheckpointError("the key " + key + " is missing");
  if (!value->is_map())
    throw CheckpointError(key + " must be an object, found " + value->describe());
  return *value;
}

void check_any(std::size_t tensors) {
  if (tensors == 0)
    throw CheckpointError(
        "weight_map is empty, so the index lists no tensor: was it cut short, or written before "
        "its weights? Save the model again");
}

// Reads total_size, for which some writers gave a float. A value that is not a whole number of
// bytes is ignored, because it is no reason to refuse the weights.
std::optional<std::uint64_t> total_size(const Node& document) {
  const Node* metadata = document.find("metadata");
  const Node* total = metadata != nullptr ? metadata->find("total_size") : nullptr;
  if (total == nullptr || !total->is_scalar() || total->quoted) return std::nullopt;
  if (const auto exact = parse_int(total->text)) {
    return *exact >= 0 ? std::optional<std::uint64_t>(*exact) : std::nullopt;
  }
  constexpr double kMost = 9007199254740992.0;  // Doubles hold whole numbers exactly up to here.
  const auto number = parse_double(total->text);
  if (!number || !(*number >= 0) || *number > kMost || std::floor(*number) != *number) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*number);
}

WeightIndex index_of_document(const Node& document) {
  if (!document.is_map()) {
    throw CheckpointError("it must be a JSON object, found " + document.describe());
  }
  const Node& weight_map = need_map(document, "weight_map");
  check_any(weight_map.entries.size());
  if (weight_map.entries.size() > WeightIndexLimits::kTensors) {
    throw CheckpointError("weight_map has " + std::to_string(weight_map.entries.size()) +
                          " tensors, at most " + std::to_string(WeightIndexLimits::kTensors) +
                          " are allowed");
  }
  WeightIndex index{.total_bytes = total_size(document)};
  for (const NodeEntry& entry : weight_map.entries) {
    if (!entry.value.is_scalar() || !entry.value.quoted) {
      throw CheckpointError("the file of " + detail::tensor_label(entry.key) +
                            " must be a string, found " + entry.value.describe());
    }
    check_entry(entry.key, entry.value.text);
    index.files.emplace(entry.key, entry.value.text);
  }
  return index;
}

bool is_number(std::string_view text) {
  return text.size() >= 5 && detail::all_digits(text);
}

void check_unique(const std::vector<ShardItem>& items) {
  std::set<std::string_view> seen;
  for (const ShardItem& item : items) {
    if (seen.insert(item.name).second) continue;
    throw UsageError("cannot save " + detail::tensor_label(item.name) +
                     " twice: names must be unique");
  }
}

void add(WeightShard& shard, const ShardItem& item) {
  shard.names.push_back(item.name);
  shard.size_bytes += item.size_bytes;
}

[[noreturn]] void refuse_size(std::string_view text) {
  throw ConfigError(
      "'" + std::string(text.substr(0, 80)) +
      "' is not a shard size. Allowed are a number of bytes, or a number above 0 with KB, MB, GB "
      "or TB, such as 5GB (1 KB = 1000 bytes)");
}

}  // namespace

std::vector<std::string> WeightIndex::file_names() const {
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  return {names.begin(), names.end()};
}

WeightIndex read_weight_index(const std::filesystem::path& path, FileSystem& files) {
  const std::string cannot = "cannot read the index of weights '" + path.string() + "'";
  try {
    const std::string text = files.read(path, WeightIndexLimits::kFileBytes);
    const DocumentLimits limits{.max_bytes = WeightIndexLimits::kFileBytes, .max_depth = 8};
    return index_of_document(read_json(text, "the index", limits));
  } catch (const CheckpointError& error) {
    throw CheckpointError(cannot + ": " + error.what());
  } catch (const Error&) {
    throw_with_context<CheckpointError>(cannot);
  }
}

std::string weight_index_text(const WeightIndex& index) {
  std::vector<NodeEntry> weight_map;
  try {
    check_any(index.files.size());
    for (const auto& [tensor, file] : index.files) {
      check_entry(tensor, file);
      weight_map.push_back({tensor, 0, Node::string(file)});
    }
  } catch (const CheckpointError& error) {
    throw UsageError(std::string("cannot write an index of weights: ") + error.what());
  }
  std::vector<NodeEntry> metadata;
  if (index.total_bytes)
    metadata.push_back({"total_size", 0, Node::plain(std::to_string(*index.total_bytes))});
  return write_json(Node::map({{"metadata", 0, Node::map(std::move(metadata))},
                               {"weight_map", 0, Node::map(std::move(weight_map))}}));
}

std::string ShardNames::file_name(std::size_t number, std::size_t count) const {
  if (count == 1) return stem + extension;
  return stem + "-" + detail::five_digits(number) + "-of-" + detail::five_digits(count) + extension;
}

bool ShardNames::is_own(std::string_view file_name) const {
  if (file_name == stem + extension || file_name == index_name()) return true;
  if (!file_name.starts_with(stem + "-") || !file_name.ends_with(extension)) return false;
  file_name.remove_prefix(stem.size() + 1);
  if (file_name.size() < extension.size()) return false;
  file_name.remove_suffix(extension.size());
  const std::size_t of = file_name.find("-of-");
  return of != std::string_view::npos && is_number(file_name.substr(0, of)) &&
         is_number(file_name.substr(of + 4));
}

ShardNames weight_names(bool safe_serialization) {
  if (safe_serialization) return {};
  return {.stem = "pytorch_model", .extension = ".bin"};
}

std::vector<WeightShard> plan_shards(const std::vector<ShardItem>& items,
                                     std::uint64_t max_shard_bytes, const ShardNames& names) {
  check_unique(items);
  std::vector<WeightShard> shards;
  WeightShard current;
  for (const ShardItem& item : items) {
    if (item.size_bytes > max_shard_bytes) {
      add(shards.emplace_back(), item);
      continue;
    }
    if (item.size_bytes > max_shard_bytes - current.size_bytes) {
      shards.push_back(std::exchange(current, {}));
    }
    add(current, item);
  }
  if (!current.names.empty() || shards.empty()) shards.push_back(std::move(current));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name = names.file_name(i + 1, shards.size());
  }
  return shards;
}

WeightIndex index_of(const std::vector<WeightShard>& shards) {
  WeightIndex index{.total_bytes = 0};
  for (const WeightShard& shard : shards) {
    *index.total_bytes += shard.size_bytes;
    for (const std::string& name : shard.names) index.files[name] = shard.file_name;
  }
  return index;
}

std::uint64_t parse_shard_size(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}}};
  const std::string trimmed = lower(trim(text));
  std::string_view number = trimmed;
  double multiplier = 1;
  for (const auto& [unit, factor] : kUnits) {
    if (!number.ends_with(unit)) continue;
    number.remove_suffix(unit.size());
    multiplier = factor;
    break;
  }
  const auto value = parse_double(trim(number));
  if (!value) refuse_size(text);
  // At least one byte, and less than 2^63: larger disks do not exist, and the number must fit.
  const double bytes = *value * multiplier;
  if (!(bytes >= 1) || bytes >= 9.2e18) refuse_size(text);
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace accelerate

namespace accelerate::detail {

std::string five_digits(std::size_t number) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%05zu", number);
  return digits.data();
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace accelerate::detail
