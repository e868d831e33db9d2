// One table for each section says everything about its keys: name, aliases, member, type, choices,
// meaning. Reading, writing, flags, suggestions and the documentation all come from it, so a new
// key is one line in section_tables.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/config_sections.h"
#include "accelerate/launch/config/key_value.h"

namespace accelerate::detail {

/// Strips std::optional: a key that may be absent is read and written like its value.
template <typename T>
struct Plain {
  using type = T;
};
template <typename T>
struct Plain<std::optional<T>> {
  using type = T;
};

template <typename Section>
struct Key {
  std::string name;
  std::string doc;
  KeyRules rules;
  std::string type;
  std::vector<std::string> choices;
  std::string allowed;
  /// False when the node does not fit the type or the rules.
  std::function<bool(Section&, const Node&)> read;
  /// nullopt when absent.
  std::function<std::optional<Node>(const Section&)> write;
};

/// Returns the variable in which the launcher gives the key to the ranks.
template <typename Section>
[[nodiscard]] std::string variable_of(const Key<Section>& key) {
  if (key.rules.flag && !key.rules.flag->variable.empty()) return key.rules.flag->variable;
  return upper(key.name);
}

/// Returns `node`, or a node with today's word when it holds a synonym.
[[nodiscard]] Node modern_word(const Node& node, const KeyRules& rules);

/// Makes a line of a table.
template <typename Section, typename T>
[[nodiscard]] Key<Section> key(std::string name, T Section::* member, std::string doc,
                               KeyRules rules = {}) {
  using V = KeyValue<typename Plain<T>::type>;
  Key<Section> line;
  line.name = std::move(name);
  line.doc = std::move(doc);
  line.type = V::type;
  line.choices = V::choices(rules);
  line.allowed = V::allowed(rules);
  line.read = [member, rules](Section& section, const Node& node) {
    if (rules.may_be_auto && node.is_scalar() && lower(node.text) == "auto") return true;
    auto value = V::read(modern_word(node, rules), rules);
    if (value) section.*member = std::move(*value);
    return value.has_value();
  };
  const auto write = [rules](const auto& value) {
    if constexpr (requires { V::write(value, rules); }) {
      return V::write(value, rules);
    } else {
      return V::write(value);
    }
  };
  line.write = [member, write](const Section& section) -> std::optional<Node> {
    if constexpr (requires { (section.*member).has_value(); }) {
      if (!(section.*member).has_value()) return std::nullopt;
      return write(*(section.*member));
    } else {
      return write(section.*member);
    }
  };
  line.rules = std::move(rules);
  return line;
}

/// Returns `text` as a flag or a variable gives it: without the quotes that would make it a word.
[[nodiscard]] inline Node plain_text(const std::string& text) {
  Node node = Node::string(text);
  node.quoted = false;
  return node;
}

/// Reads the text of a flag or a variable, which `where` names, as a value of `key`. Throws
/// ConfigError.
template <typename Section>
void read_text(Section& section, const Key<Section>& key, const std::string& text,
               const std::string& where) {
  if (key.read(section, plain_text(text))) return;
  throw ConfigError(where + " is '" + text + "'; allowed is " + key.allowed + "." +
                    did_you_mean(text, key.choices));
}

template <typename Section>
struct KeyTable {
  std::string name;                ///< The section's name in a file; "" for the top level.
  std::string prefix;              ///< The prefix of its keys, which a file may leave out.
  std::vector<Key<Section>> keys;
  /// The group of its flags; absent where each key has its own.
  std::optional<FlagGroup> group = {};

  /// `text` without the prefix.
  [[nodiscard]] std::string_view bare(std::string_view text) const {
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }

  /// Finds the key that a file calls `written`: by name or alias, with or without the prefix. Null
  /// if none.
  [[nodiscard]] const Key<Section>* find(std::string_view written) const {
    for (const auto& line : keys) {
      if (bare(line.name) == bare(written)) return &line;
      for (const auto& alias : line.rules.aliases) {
        if (bare(alias) == bare(written)) return &line;
      }
    }
    return nullptr;
  }

  /// Finds the key that a flag calls `flag`. A flag needs the prefix, which tells the sections
  /// apart.
  [[nodiscard]] const Key<Section>* find_flag(std::string_view flag) const {
    return flag.starts_with(prefix) ? find(flag) : nullptr;
  }

  /// The names of all keys, for suggestions.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& line : keys) all.push_back(line.name);
    return all;
  }
};

[[nodiscard]] const KeyTable<ClusterConfig>& cluster_table();
[[nodiscard]] const KeyTable<FullyShardedDataParallelPlugin>& fsdp_table();
[[nodiscard]] const KeyTable<DeepSpeedConfig>& deepspeed_table();
[[nodiscard]] const KeyTable<MegatronLMConfig>& megatron_lm_table();
[[nodiscard]] const KeyTable<ParallelismConfig>& parallelism_table();
[[nodiscard]] const KeyTable<Fp8Config>& fp8_table();
[[nodiscard]] const KeyTable<DynamoConfig>& dynamo_table();
[[nodiscard]] const KeyTable<MpirunConfig>& mpirun_table();

/// Calls visit(member pointer, table) for each section of a configuration.
template <typename Visit>
void for_each_section(Visit visit) {
  visit(&ClusterConfig::fsdp_config, fsdp_table());
  visit(&ClusterConfig::deepspeed_config, deepspeed_table());
  visit(&ClusterConfig::megatron_lm_config, megatron_lm_table());
  visit(&ClusterConfig::parallelism_config, parallelism_table());
  visit(&ClusterConfig::fp8_config, fp8_table());
  visit(&ClusterConfig::dynamo_config, dynamo_table());
  visit(&ClusterConfig::mpirun_config, mpirun_table());
}

}  // namespace accelerate::detail
