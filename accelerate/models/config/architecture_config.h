// Configurations of architectures: structs whose keys are listed once, for reading and writing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "accelerate/models/config/pretrained_config.h"

namespace accelerate::detail {

/// Reads the keys that `Config::visit(self, visit)` lists. Keys that config.json lacks keep their
/// values in `config`.
template <typename Config>
[[nodiscard]] Config read_config(const PretrainedConfig& values, Config config = {}) {
  const auto read = [&]<typename T>(std::string_view key, T& field) {
    field = values.get<T>(key, field);
  };
  const auto read_optional = [&]<typename T>(std::string_view key, std::optional<T>& field) {
    if (values.contains(key)) field = values.get<T>(key);
  };
  Config::visit(config, [&](std::string_view key, auto& field) {
    if constexpr (requires { field.has_value(); }) {
      read_optional(key, field);
    } else {
      read(key, field);
    }
  });
  return config;
}

/// Adds the keys to `values`; optional ones that are empty are left out.
template <typename Config>
void write_config(const Config& config, PretrainedConfig& values) {
  Config::visit(config, [&](std::string_view key, const auto& field) {
    if constexpr (requires { field.has_value(); }) {
      if (field) values.set(key, *field);
    } else {
      values.set(key, field);
    }
  });
}

}  // namespace accelerate::detail
