// Reads fields of the sharding plugin that the program leaves out from the launcher's variables.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/word.h"

namespace accelerate::detail {

/// Lists the allowed words: "FULL_SHARD (1), SHARD_GRAD_OP (2)". The first `numbered` words have a
/// number too.
template <typename Enum>
[[nodiscard]] std::string allowed_words(std::size_t numbered) {
  std::vector<std::string> words = enum_names<Enum>();
  for (std::size_t i = 0; i < numbered && i < words.size(); ++i) {
    words[i] += " (" + std::to_string(i + 1) + ")";
  }
  return join(words, ", ");
}

/// Returns the enumerator whose word or number is `text`; nullopt if none.
template <typename Enum>
[[nodiscard]] std::optional<Enum> find_word(const std::string& text, std::size_t numbered) {
  if (const auto word = parse_enum<Enum>(text)) return word;
  const auto number = parse_int(text);
  if (!number || *number < 1 || static_cast<std::size_t>(*number) > numbered) return std::nullopt;
  return EnumWords<Enum>::values[static_cast<std::size_t>(*number) - 1].first;
}

/// Reads `text`, the value of `variable`, as a word or number. Throws ConfigError.
template <typename Enum>
[[nodiscard]] Enum word_of(const char* variable, const std::string& text, std::size_t numbered) {
  if (const auto word = find_word<Enum>(text, numbered)) return *word;
  throw ConfigError(std::string(variable) + " is '" + text + "'; allowed are " +
                    allowed_words<Enum>(numbered) + "." + did_you_mean(text, enum_names<Enum>()));
}

/// Returns what the program said, else what the variable says, else `fallback`. Throws ConfigError.
template <typename Enum>
[[nodiscard]] Enum word_or_env(const std::optional<Word<Enum>>& said, const char* variable,
                               Enum fallback, std::size_t numbered = 0) {
  if (said) return *said;
  const auto text = env(variable);
  return text ? word_of<Enum>(variable, *text, numbered) : fallback;
}

/// Returns what a launcher that shards would have put into a variable of fsdp_config that nobody
/// asked for: the default of the key's flag. nullopt without such a launcher, and for a flag without
/// a default. `accelerate launch` leaves such variables out, so that a file of the program counts.
[[nodiscard]] std::optional<std::string> launched_default(std::string_view variable);

/// Whether only rank 0 reads weights, as far as the environment says: the launcher shards, and
/// FSDP_CPU_RAM_EFFICIENT_LOADING is true or unset.
[[nodiscard]] bool only_rank_zero_loads();

/// Returns what the program said, else the boolean in the variable, else the launcher's default,
/// else false. Throws ConfigError.
[[nodiscard]] inline bool flag_or_env(const std::optional<bool>& said, const char* variable) {
  if (said) return *said;
  if (env(variable)) return env_flag(variable, false);
  return parse_bool(launched_default(variable).value_or("")).value_or(false);
}

/// Returns the whole number that the program said, else the one in the variable, else the
/// launcher's default, else `fallback`.
/// Throws ConfigError unless it is at least `low` and fits into Integer.
template <typename Integer>
[[nodiscard]] Integer number_or_env(const std::optional<Integer>& said, const char* field,
                                    const char* variable, Integer fallback, Integer low) {
  constexpr std::int64_t kMost = std::numeric_limits<Integer>::max();
  const auto usual = parse_int(launched_default(variable).value_or("")).value_or(fallback);
  const std::int64_t value = said ? *said : env_int(variable).value_or(usual);
  if (value >= low && value <= kMost) return static_cast<Integer>(value);
  throw ConfigError((said ? std::string(field) : std::string(variable)) + " is " +
                    std::to_string(value) + "; allowed are " + std::to_string(low) + " to " +
                    std::to_string(kMost));
}

}  // namespace accelerate::detail
