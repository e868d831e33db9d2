// Configurations of architectures: structs whose keys are listed once, with their limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate::detail {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

/// Reads the keys that `Config::visit(self, visit)` lists. `visit` is called with a key, its field
/// and, for numbers, the Range of values. Keys that config.json lacks keep their values in
/// `config`. Throws ConfigError for a value of another type or outside its range, and, as
/// Transformers does, for null where the field is not optional.
template <typename Config>
[[nodiscard]] Config read_config(const PretrainedConfig& values, Config config = {}) {
  Config::visit(config, [&]<typename T, typename... Range>(std::string_view key, T& field,
                                                           const Range&... range) {
    const bool is_null = values.contains(key) && values.json_of(key) == "null";
    if (!values.contains(key)) return;
    if constexpr (kIsOptional<T>) {
      if (is_null) return field.reset();
      field = value_in(values, key, range...);
    } else if constexpr (sizeof...(range) > 0) {
      field = value_in(values, key, range...);
    } else if constexpr (kIsList<T>) {
      field = values.get<T>(key, field);
    } else {
      if (is_null) values.refuse(key, std::is_same_v<T, bool> ? "true or false" : "a text");
      field = values.get<T>(key, field);
    }
  });
  return config;
}

/// A key of config.json, and what it may say.
struct ConfigKey {
  enum class Kind { boolean, text, texts, integer, integers, number };
  std::string_view name;
  Kind kind;
  bool may_be_null = false;
  double least = 0, most = 0;  ///< Of numbers.
};

/// Returns the keys that `Config::visit()` lists.
template <typename Config>
[[nodiscard]] std::vector<ConfigKey> keys_of() {
  using enum ConfigKey::Kind;
  std::vector<ConfigKey> keys;
  const auto add = [&]<typename T, typename... Limits>(const char* key, const T& /*field*/,
                                                       const Limits&... limits) {
    if constexpr (sizeof...(limits) > 0) {
      const auto add_number = [&]<typename N>(const Range<N>& range) {
        keys.push_back({key, std::is_same_v<N, double> ? number : integer, kIsOptional<T>,
                        static_cast<double>(range.least), static_cast<double>(range.most)});
      };
      add_number(limits...);
    } else if constexpr (kIsList<T>) {
      keys.push_back({key, std::is_same_v<T, std::vector<std::string>> ? texts : integers, true});
    } else {
      keys.push_back({key, std::is_same_v<T, bool> ? boolean : text});
    }
  };
  const Config fields;
  Config::visit(fields, add);
  return keys;
}

}  // namespace accelerate::detail
