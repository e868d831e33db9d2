#include "cli/terminal/arguments.h"

#include <algorithm>
#include <optional>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/config/cluster_config.h"

namespace accelerate::cli {
namespace {

// What one word says: which flag, and the value glued to it, if any.
struct Word {
  const Flag* flag;
  std::optional<std::string> value;
};

// " Did you mean '--num_processes'?" for a misspelling, and for "--num_procs", which is far from it
// by letters changed but begins alike.
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

Word read_long(const std::string& word, std::span<const Flag> table) {
  const auto equals = word.find('=');
  std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(name, '-', '_');
  const auto flag = std::ranges::find(table, name, &Flag::name);
  if (flag == table.end()) refuse_unknown("--" + name, table);
  if (equals == std::string::npos) return {&*flag, std::nullopt};
  return {&*flag, word.substr(equals + 1)};
}

Word read_short(const std::string& word, std::span<const Flag> table) {
  const auto flag = std::ranges::find(table, word[1], &Flag::letter);
  if (flag == table.end()) refuse_unknown(word, table);
  if (word.size() == 2) return {&*flag, std::nullopt};
  if (flag->kind == FlagKind::toggle) refuse_unknown(word, table);
  return {&*flag, word.substr(word[2] == '=' ? 3 : 2)};
}

// The value of `word`: glued to it, or the next word, over which `next` then moves.
std::string value_of(const Word& word, const std::vector<std::string>& words, std::size_t& next) {
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

// What a flag takes: its own words, or those of its key in a configuration file.
std::vector<std::string> words_of(const Flag& flag) {
  if (flag.kind != FlagKind::text) return flag.choices;
  const auto key = std::ranges::find(config_keys(), flag.name, &ConfigKey::name);
  return key == config_keys().end() ? std::vector<std::string>{} : key->choices;
}

std::string value_name(const Flag& flag) {
  switch (flag.kind) {
    case FlagKind::toggle:
      return "";
    case FlagKind::choice:
      return flag.choices.size() > 4 ? " NAME" : std::string(" ").append(join(flag.choices, "|"));
    case FlagKind::integer:
      return " N";
    case FlagKind::number:
      return " X";
    case FlagKind::truth:
    case FlagKind::boolean:
    case FlagKind::bit:
      return " true|false";
    case FlagKind::bits:
      return " B,B,B";
    case FlagKind::text:
      return words_of(flag).empty() ? " TEXT" : " NAME";
  }
  return "";
}

std::string status_note(const Flag& flag) {
  switch (flag.status) {
    case FlagStatus::works:
      return "";
    case FlagStatus::carried:
      return " (handed to the ranks)";
    case FlagStatus::no_effect:
      return " (accepted, changes nothing)";
    case FlagStatus::later:
      return " (comes later; refused now)";
    case FlagStatus::not_applicable:
      return " (not served; refused)";
  }
  return "";
}

std::string sentence(const Flag& flag) {
  std::string text = flag.help;
  const auto words = words_of(flag);
  const bool shown_before = flag.kind == FlagKind::choice && words.size() <= 4;
  if (!words.empty() && !shown_before) text += " One of " + join(words, ", ") + ".";
  if (!flag.fallback.empty() && flag.kind != FlagKind::toggle) text += " [" + flag.fallback + "]";
  return text + status_note(flag);
}

std::string describe_flag(const Flag& flag, std::size_t width) {
  constexpr std::size_t kColumn = 38;
  std::string left = flag.letter == '\0' ? "  " : std::string("  -") + flag.letter + ", ";
  left += "--" + flag.name + value_name(flag);
  const std::string right = indented(sentence(flag), kColumn, width);
  if (left.size() + 2 > kColumn) return left + "\n" + right;
  return left + std::string(kColumn - left.size(), ' ') + right.substr(kColumn);
}

}  // namespace

Arguments split_arguments(const std::vector<std::string>& words, std::span<const Flag> table) {
  Arguments result;
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
    const Word read = word[1] == '-' ? read_long(word, table) : read_short(word, table);
    const std::string value = value_of(read, words, next);
    result.flags[read.flag->name] = checked_value(*read.flag, value, "--" + read.flag->name);
  }
  result.program.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  return result;
}

std::string describe_flags(std::span<const Flag> table, int columns) {
  const auto width = static_cast<std::size_t>(std::clamp(columns, 70, 120));
  std::string page;
  const Flag* before = nullptr;
  for (const auto& flag : table) {
    if (before == nullptr || before->group != flag.group) {
      page.append("\n").append(heading(flag.group)).append(":\n");
    }
    page += describe_flag(flag, width);
    before = &flag;
  }
  return page;
}

}  // namespace accelerate::cli
