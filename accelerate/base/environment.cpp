#include "accelerate/base/environment.h"

#include <cstdlib>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = lower(text);
  for (const char* yes : {"y", "yes", "t", "true", "on", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"n", "no", "f", "false", "off", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::string> env_first(const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (auto value = env(name)) return value;
  }
  return std::nullopt;
}

bool env_flag(const char* name, bool fallback) {
  const auto text = env(name);
  if (!text) return fallback;
  const auto value = parse_bool(*text);
  if (!value) {
    throw ConfigError("the environment variable " + std::string(name) + " is '" + *text +
                      "', which is not a boolean: use one of y yes t true on 1, n no f false off "
                      "0");
  }
  return *value;
}

std::optional<std::int64_t> env_int(const char* name) {
  const auto text = env(name);
  if (!text) return std::nullopt;
  const auto value = parse_int(*text);
  if (!value) {
    throw ConfigError("the environment variable " + std::string(name) + " is '" + *text +
                      "', which is not an integer");
  }
  return value;
}

std::optional<std::int64_t> env_int_first(const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (env(name)) return env_int(name);
  }
  return std::nullopt;
}

}  // namespace accelerate
