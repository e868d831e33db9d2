#include "accelerate/launch/launch_arguments.h"

#include <algorithm>
#include <optional>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

// One word, read: which flag it is, and the value glued to it, if any.
struct FlagWord {
  const Flag* flag;
  std::optional<std::string> value;
};

// Returns " Did you mean '--num_processes'?" for a misspelling. Also for "--num_procs", which many
// letters separate from it, but which begins like it.
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = did_you_mean(word, known);
  if (!near.empty()) return near;
  const auto shared = [&](const std::string& flag) {
    return std::ranges::mismatch(word, flag).in1 - word.begin();
  };
  const auto best = std::ranges::max_element(known, {}, shared);
  if (best == known.end() || shared(*best) * 4 < std::ssize(word) * 3) return {};
  return " Did you mean '" + *best + "'?";
}

[[noreturn]] void refuse_unknown(const std::string& word, std::span<const Flag> table) {
  std::vector<std::string> known;
  for (const auto& flag : table) known.push_back("--" + flag.name);
  throw ConfigError("there is no flag '" + word + "'." + suggestion(word, known) +
                    " `accelerate launch --help` lists all flags; flags of your own program go "
                    "after its name.");
}

FlagWord read_long(const std::string& word, std::span<const Flag> table) {
  const auto equals = word.find('=');
  std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(name, '-', '_');
  const auto flag = std::ranges::find(table, name, &Flag::name);
  if (flag == table.end()) refuse_unknown("--" + name, table);
  if (equals == std::string::npos) return {&*flag, std::nullopt};
  return {&*flag, word.substr(equals + 1)};
}

FlagWord read_short(const std::string& word, std::span<const Flag> table) {
  const auto flag = std::ranges::find(table, word[1], &Flag::letter);
  if (flag == table.end()) refuse_unknown(word, table);
  if (word.size() == 2) return {&*flag, std::nullopt};
  if (flag->kind == FlagKind::toggle) refuse_unknown(word, table);
  return {&*flag, word.substr(word[2] == '=' ? 3 : 2)};
}

// Returns the value of `word`: the value glued to it, or the next word, and then moves `next` on.
std::string value_of(const FlagWord& word, const std::vector<std::string>& words,
                     std::size_t& next) {
  const std::string shown = "--" + word.flag->name;
  if (word.flag->kind == FlagKind::toggle) {
    if (word.value) {
      throw ConfigError(shown + " is a switch and takes no value, yet has '" + *word.value +
                        "': write " + shown + " alone, or leave it out.");
    }
    return "True";
  }
  if (word.value) return *word.value;
  if (next == words.size() || words[next].starts_with("--")) {
    throw ConfigError(shown + " needs a value: write " + shown + " VALUE or " + shown + "=VALUE.");
  }
  return words[next++];
}

}  // namespace

LaunchArguments split_arguments(const std::vector<std::string>& words,
                                std::span<const Flag> table) {
  LaunchArguments result;
  std::size_t next = 0;
  while (next < words.size()) {
    const std::string& word = words[next];
    if (word.size() < 2 || word[0] != '-') break;
    ++next;
    if (word == "--") break;
    if (word == "-h" || word == "--help") {
      result.help = true;
      continue;
    }
    const FlagWord read = word[1] == '-' ? read_long(word, table) : read_short(word, table);
    const std::string value = value_of(read, words, next);
    result.flags[read.flag->name] = checked_value(*read.flag, value, "--" + read.flag->name);
  }
  result.program.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  return result;
}

}  // namespace accelerate
