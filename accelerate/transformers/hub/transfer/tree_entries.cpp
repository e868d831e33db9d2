#include "accelerate/transformers/hub/transfer/tree_entries.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 12> kWanted = {
    "type",    "path",     "oid",     "size",       "xetHash",  "lfs",
    "lfs.oid", "lfs.size", "blob_id", "lfs_sha256", "lfs_size", "xet_hash"};

// What both forms of a list have in common: entries are objects at a certain depth.
class EntryHandler : public nlohmann::json_sax<Json> {
 public:
  EntryHandler(std::size_t entry_depth, const TakeEntry& take)
      : entry_depth_(entry_depth), take_(take) {}

  bool null() override { return take_value({}); }
  bool boolean(bool) override { return take_value({}); }
  bool number_integer(number_integer_t) override { return take_value({}); }
  bool number_unsigned(number_unsigned_t value) override {
    note_number(value);
    return take_value(std::uint64_t{value});
  }
  bool number_float(number_float_t, const string_t&) override { return take_value({}); }
  bool string(string_t& value) override { return take_value(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

  bool start_object(std::size_t) override {
    if (!may_begin(true)) return false;
    if (depth_ + 1 == entry_depth_) entry_ = {.name = key_};
    if (depth_ == entry_depth_) {
      (void)take_value(std::string());
      prefix_ = key_ + ".";
    }
    ++depth_;
    key_.clear();
    return true;
  }
  bool end_object() override {
    if (depth_ == entry_depth_) take_(std::move(entry_));
    return leave();
  }
  bool start_array(std::size_t) override {
    if (!may_begin(false)) return false;
    ++depth_;
    key_.clear();
    return true;
  }
  bool end_array() override { return leave(); }
  bool key(string_t& key) override {
    key_ = depth_ <= entry_depth_ ? key : depth_ == entry_depth_ + 1 ? prefix_ + key : "";
    return true;
  }

 protected:
  /// Whether an object or an array may begin here.
  virtual bool may_begin(bool is_object) = 0;
  virtual bool may_stand_outside() = 0;  ///< Whether other values may stand outside of entries.
  virtual void note_number(std::uint64_t) {}

  [[nodiscard]] std::size_t depth() const { return depth_; }
  [[nodiscard]] const std::string& last_key() const { return key_; }

 private:
  using Value = std::variant<std::monostate, std::string, std::uint64_t>;

  bool take_value(Value value) {
    if (depth_ < entry_depth_) return may_stand_outside();
    if (std::ranges::find(kWanted, key_) == kWanted.end()) return true;
    if (auto* text = std::get_if<std::string>(&value)) {
      entry_.fields.insert_or_assign(key_, std::move(*text));
    } else if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      entry_.fields.insert_or_assign(key_, *number);
    } else {
      entry_.fields.erase(key_);
    }
    return true;
  }

  bool leave() {
    --depth_;
    key_.clear();
    return true;
  }

  std::size_t entry_depth_, depth_ = 0;
  const TakeEntry& take_;
  TreeEntry entry_;
  std::string key_, prefix_;  // The key of the next value; "" within arrays.
};

class PageHandler final : public EntryHandler {
 public:
  explicit PageHandler(const TakeEntry& take) : EntryHandler(2, take) {}
  std::string fault = "is no JSON array";

 private:
  bool may_begin(bool is_object) override {
    if (depth() == 0) return !is_object;
    return depth() > 1 || is_object || may_stand_outside();
  }
  bool may_stand_outside() override {
    if (depth() == 1) fault = "has an entry that is no JSON object";
    return false;
  }
};

class CachedHandler final : public EntryHandler {
 public:
  explicit CachedHandler(const TakeEntry& take) : EntryHandler(3, take) {}
  std::uint64_t version = 0;

 private:
  bool may_begin(bool is_object) override {
    return is_object && (depth() != 1 || last_key() == "files");
  }
  bool may_stand_outside() override { return depth() == 1; }
  void note_number(std::uint64_t number) override {
    if (depth() == 1 && last_key() == "format_version") version = number;
  }
};

}  // namespace

std::string TreeEntry::text(std::string_view key) const {
  const auto found = fields.find(key);
  const auto* text = found == fields.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? "" : *text;
}

const std::uint64_t* TreeEntry::number(std::string_view key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? nullptr : std::get_if<std::uint64_t>(&found->second);
}

std::string read_tree_page(std::string_view page, const TakeEntry& take) {
  PageHandler handler(take);
  return Json::sax_parse(page, &handler) ? "" : handler.fault;
}

bool read_cached_tree(std::string_view list, const TakeEntry& take) {
  CachedHandler handler(take);
  return Json::sax_parse(list, &handler) && handler.version == 1;
}

}  // namespace accelerate::detail
