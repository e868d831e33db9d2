// How values are written on a command line and in files, for the types that only arguments of a
// training have: specialisations of KeyValue of launch/config/key_value.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/config/key_value.h"
#include "accelerate/optim/get_scheduler.h"
#include "accelerate/transformers/trainer/arguments/argument_types.h"

namespace accelerate::detail {

template <typename Enum>
struct KeyValue<Word<Enum>> {
  static constexpr const char* type = "word";
  static std::vector<std::string> choices(const KeyRules&) { return enum_names<Enum>(); }
  static std::string allowed(const KeyRules& rules) { return KeyValue<Enum>::allowed(rules); }
  static std::optional<Word<Enum>> read(const Node& node, const KeyRules& rules) {
    const auto value = KeyValue<Enum>::read(node, rules);
    return value ? std::optional<Word<Enum>>(*value) : std::nullopt;
  }
  static Node write(const Word<Enum>& value) { return KeyValue<Enum>::write(value); }
};

template <>
struct KeyValue<float> {
  static constexpr const char* type = "number";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules& rules) { return KeyValue<double>::allowed(rules); }
  static std::optional<float> read(const Node& node, const KeyRules& rules) {
    const auto value = KeyValue<double>::read(node, rules);
    return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
  }
  static Node write(float value) { return KeyValue<double>::write(value); }
};

template <>
struct KeyValue<std::filesystem::path> {
  static constexpr const char* type = "path";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&) { return "a path"; }
  static std::optional<std::filesystem::path> read(const Node& node, const KeyRules&) {
    return node.is_scalar() ? std::optional<std::filesystem::path>(node.text) : std::nullopt;
  }
  static Node write(const std::filesystem::path& value) { return Node::string(value.string()); }
};

/// A list of texts; one text is a list of one. If there are choices, every text must be one of
/// them.
template <>
struct KeyValue<Words> {
  static constexpr const char* type = "list of texts";
  static std::vector<std::string> choices(const KeyRules& rules) { return rules.choices; }
  static std::string allowed(const KeyRules& rules);
  static std::optional<Words> read(const Node& node, const KeyRules& rules);
  static Node write(const Words& value) {
    return KeyValue<std::vector<std::string>>::write(value.texts());
  }
};

/// A boolean, or words as one text or as a list.
template <>
struct KeyValue<FsdpOption> {
  static constexpr const char* type = "boolean or words";
  static std::vector<std::string> choices(const KeyRules&) { return fsdp_words(); }
  static std::string allowed(const KeyRules&);
  static std::optional<FsdpOption> read(const Node& node, const KeyRules& rules);
  static Node write(const FsdpOption& value);

  /// Returns full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2, no_shard, offload and
  /// auto_wrap.
  static const std::vector<std::string>& fsdp_words();
};

/// A path; or the keys of a section fsdp_config, as a map or as its text in JSON. Reading throws
/// ConfigError for a map with a key or value that is not allowed.
template <>
struct KeyValue<FsdpConfigOption> {
  static constexpr const char* type = "path or map";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&);
  static std::optional<FsdpConfigOption> read(const Node& node, const KeyRules& rules);
  static Node write(const FsdpConfigOption& value);
};

/// A map, its text in JSON, or the path of a JSON or YAML file that holds one. Reading throws
/// ConfigError for a key or value that is not allowed.
template <>
struct KeyValue<AcceleratorConfig> {
  static constexpr const char* type = "path or map";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&);
  static std::optional<AcceleratorConfig> read(const Node& node, const KeyRules& rules);
  static Node write(const AcceleratorConfig& value);
};

/// A boolean or a path.
template <>
struct KeyValue<ResumeOption> {
  static constexpr const char* type = "boolean or path";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&) { return "true, false, last or a folder"; }
  static std::optional<ResumeOption> read(const Node& node, const KeyRules& rules);
  static Node write(const ResumeOption& value);
};

/// A map, or its text in JSON. Reading throws ConfigError for a key or value that is not allowed.
template <>
struct KeyValue<SchedulerSpecificOptions> {
  static constexpr const char* type = "map";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&);
  static std::optional<SchedulerSpecificOptions> read(const Node& node, const KeyRules& rules);
  static Node write(const SchedulerSpecificOptions& value);
};

/// Reads a text that begins with '{' as JSON, and returns any other node as it is. `name` stands
/// for the argument in messages. Throws ConfigError.
[[nodiscard]] Node unfold_map(const Node& node, const std::string& name);

}  // namespace accelerate::detail
