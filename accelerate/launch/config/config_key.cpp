// Single keys by name, for flags, environment variables, menus and the documentation.
#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/key_table.h"

namespace accelerate {
namespace {

using detail::for_each_section;
using detail::KeyTable;

// Calls visit(section, key) on the key that a flag calls `name`; throws when there is none.
template <typename Config, typename Visit>
void with_key(Config& config, std::string_view name, Visit visit) {
  std::string flag(name);
  std::replace(flag.begin(), flag.end(), '-', '_');
  bool found = false;
  const auto look_into = [&](auto& section, const auto& table) {
    const auto* key = found ? nullptr : table.find_flag(flag);
    if (key == nullptr) return;
    found = true;
    visit(section, *key);
  };
  look_into(config, detail::cluster_table());
  for_each_section([&](auto member, const auto& table) { look_into(config.*member, table); });
  if (found) return;
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) names.push_back(key.name);
  throw ConfigError(
      "'" + std::string(name) + "' is not a configuration key." + did_you_mean(flag, names),
      error_name::kUnknownKey);
}

std::string text_of(const Node& node) {
  if (!node.is_sequence()) return node.text;
  std::vector<std::string> parts;
  for (const Node& item : node.items) parts.push_back(item.text);
  return join(parts, ",");
}

template <typename Section>
void append_keys(std::vector<ConfigKey>& all, const KeyTable<Section>& table) {
  for (const auto& key : table.keys) {
    all.push_back({table.name, key.name, key.rules.aliases, key.type, key.choices, key.doc});
  }
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> kKeys = [] {
    std::vector<ConfigKey> all;
    append_keys(all, detail::cluster_table());
    for_each_section([&](auto, const auto& table) { append_keys(all, table); });
    return all;
  }();
  return kKeys;
}

void set_config_key(ClusterConfig& config, std::string_view name, const std::string& text,
                    const std::string& where) {
  with_key(config, name,
           [&](auto& section, const auto& key) { detail::read_text(section, key, text, where); });
}

std::string checked_config_text(std::string_view name, const std::string& text,
                                const std::string& where) {
  ClusterConfig none;
  std::string checked;
  with_key(none, name, [&](auto& section, const auto& key) {
    detail::read_text(section, key, text, where);
    if (const auto node = key.write(section)) checked = text_of(*node);
  });
  return checked;
}

std::optional<std::string> config_key_text(const ClusterConfig& config, std::string_view name) {
  std::optional<std::string> text;
  with_key(config, name, [&](const auto& section, const auto& key) {
    if (const auto node = key.write(section)) text = text_of(*node);
  });
  return text;
}

std::map<std::string, std::string> config_texts(const ClusterConfig& config) {
  std::map<std::string, std::string> texts;
  const auto append = [&](const auto& section, const auto& table) {
    for (const auto& key : table.keys)
      if (const auto node = key.write(section)) texts[key.name] = text_of(*node);
  };
  append(config, detail::cluster_table());
  for_each_section([&](auto member, const auto& table) { append(config.*member, table); });
  return texts;
}

}  // namespace accelerate
