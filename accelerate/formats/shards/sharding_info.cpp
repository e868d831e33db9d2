#include "accelerate/formats/shards/sharding_info.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

using detail::printable;
using detail::tensor_label;

constexpr const char* kOffsetsKey = "DCP_SHARDING_INFO";
constexpr const char* kOffsets = "saved_offsets";
constexpr const char* kVersionKey = "DCP_VERSION";
constexpr double kVersion = 1.0;
constexpr const char* kShapesKey = "ACCELERATE_SHARDING_INFO";
constexpr const char* kShape = "global_shape";

// Receives the events of a parser of {"<tensor>": {"<key>": [1, 2], …}, …} and keeps the lists
// below `key`. Other keys of an entry are skipped.
class ListReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  ListReader(const char* where, const char* key) : where_(where), wanted_(key) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override {
    return other(printable(text));
  }
  bool string(string_t& text) override { return other("the string " + printable(text)); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (skipping() || depth_ != 3) return other(std::to_string(value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        list_->size() == SafetensorsLimits::kRank)
      refuse("holds " + std::to_string(value) +
             (list_->size() == SafetensorsLimits::kRank
                  ? " beyond the 32 dimensions that are allowed"
                  : ", at most 2^63-1 is allowed"));
    list_->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool start_object(std::size_t) override { return open(depth_ < 2, "an object"); }
  bool start_array(std::size_t) override { return open(depth_ == 2, "a list"); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& text) override {
    if (skip_ > 0) return true;
    if (depth_ == 1) {
      name_ = text;
      const auto [entry, fresh] = lists_.emplace(text, std::vector<std::int64_t>());
      if (!fresh) throw fault("has " + tensor_label(text) + " twice");
      list_ = &entry->second;
      found_ = false;
    } else {
      key_ = text;
      if (key_ == wanted_ && std::exchange(found_, true)) refuse("appears twice");
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception&) override {
    throw fault("is not valid JSON at its byte " + std::to_string(position) + ", near " +
                printable(token));
  }

  ShardingInfo::ByName take() { return std::move(lists_); }

 private:
  [[nodiscard]] CheckpointError fault(const std::string& what) const {
    return CheckpointError("its " + std::string(where_) + " " + what);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw fault("of " + tensor_label(name_) + ": " + wanted_ + " " + what);
  }
  [[nodiscard]] bool skipping() const { return skip_ > 0 || (depth_ == 2 && key_ != wanted_); }
  bool other(const std::string& found) const {
    if (skipping()) return true;
    if (depth_ == 0) throw fault("must be a JSON object, found " + found);
    if (depth_ == 1)
      throw fault("of " + tensor_label(name_) + " must be an object, found " + found);
    refuse("must be a list of whole numbers from 0 on, found " + found);
  }
  bool open(bool expected, const std::string& found) {
    if (skipping()) {
      ++skip_;
      return true;
    }
    if (!expected) return other(found);
    ++depth_;
    key_.clear();
    if (depth_ == 3) key_ = wanted_;
    return true;
  }
  bool close() {
    if (skip_ > 0) {
      --skip_;
      return true;
    }
    if (depth_ == 2 && !found_)
      throw fault("of " + tensor_label(name_) + " lacks " + std::string(wanted_));
    --depth_;
    key_.clear();
    return true;
  }

  const char* where_;
  const char* wanted_;
  ShardingInfo::ByName lists_;
  std::vector<std::int64_t>* list_ = nullptr;
  std::string name_, key_;
  bool found_ = false;
  int depth_ = 0;  // 1: among tensors, 2: inside a tensor's entry, 3: in its list.
  int skip_ = 0;   // Depth of nesting inside a skipped value.
};

ShardingInfo::ByName read_lists(const std::string& text, const char* where, const char* key) {
  ListReader reader(where, key);
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

std::string lists_text(const ShardingInfo::ByName& lists, const char* key) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, list] : lists) all[name][key] = list;
  // Does not throw for names that are not UTF-8: they are refused later, with the tensors' names.
  return all.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void check_version(const SafetensorsMetadata& metadata) {
  const auto version = metadata.find(kVersionKey);
  if (version == metadata.end()) return;
  const auto number = parse_double(version->second);
  if (number && *number >= kVersion && *number < kVersion + 1) return;
  throw CheckpointError("its " + std::string(kVersionKey) + " is " + printable(version->second) +
                        "; versions 1.x are known here");
}

}  // namespace

std::optional<ShardingInfo> sharding_info_of(const SafetensorsMetadata& metadata) {
  const auto offsets = metadata.find(kOffsetsKey);
  if (offsets == metadata.end()) return std::nullopt;
  check_version(metadata);
  ShardingInfo info{.offsets = read_lists(offsets->second, kOffsetsKey, kOffsets),
                    .global_shapes = {}};
  const auto shapes = metadata.find(kShapesKey);
  if (shapes != metadata.end()) info.global_shapes = read_lists(shapes->second, kShapesKey, kShape);
  return info;
}

SafetensorsMetadata sharding_metadata(const ShardingInfo& info) {
  return {{kOffsetsKey, lists_text(info.offsets, kOffsets)},
          {kVersionKey, "1.0"},
          {kShapesKey, lists_text(info.global_shapes, kShape)},
          {"format", "pt"}};
}

}  // namespace accelerate
