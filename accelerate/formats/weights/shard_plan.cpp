#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/weights/weight_index.h"

namespace accelerate {
namespace {

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
