#include "cli/reference/command_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "accelerate/base/text.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/program.h"

namespace accelerate::cli {
namespace {

constexpr std::size_t kFewChoices = 4;

// Returns the values of a launcher's flag: its own words, or the words of its key in a
// configuration file.
std::vector<std::string> words_of(const Flag& flag) {
  if (flag.kind == FlagKind::truth || flag.kind == FlagKind::boolean || flag.kind == FlagKind::bit)
    return {"true", "false"};
  if (flag.kind != FlagKind::text && flag.kind != FlagKind::word) return flag.choices;
  const auto key = std::ranges::find(config_keys(), flag.name, &ConfigKey::name);
  if (key == config_keys().end()) return {};
  std::vector<std::string> words = key->choices;
  if (key->type == "boolean or word" && !words.empty())
    words.insert(words.begin(), {"true", "false"});
  return words;
}

std::string value_name(const Flag& flag) {
  switch (flag.kind) {
    case FlagKind::toggle:
      return "";
    case FlagKind::choice:
      return flag.choices.size() > kFewChoices ? "NAME" : join(flag.choices, "|");
    case FlagKind::integer:
      return "N";
    case FlagKind::range:
      return "N|N:M";
    case FlagKind::number:
      return "X";
    case FlagKind::truth:
    case FlagKind::boolean:
    case FlagKind::bit:
      return "true|false";
    case FlagKind::bits:
      return "B,B,B";
    case FlagKind::text:
    case FlagKind::word:
      return words_of(flag).empty() ? "TEXT" : "NAME";
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
  const bool are_shown = value_name(flag) == join(words, "|");
  if (!words.empty() && !are_shown) text += " One of " + join(words, ", ") + ".";
  if (!flag.fallback.empty() && flag.kind != FlagKind::toggle) text += " [" + flag.fallback + "]";
  return text + status_note(flag);
}

FlagText option_text(const CLI::Option& option) {
  FlagText text{.names = {}, .help = option.get_description(), .group = "Flags"};
  for (const auto& name : option.get_snames()) text.names.push_back("-" + name);
  if (!option.get_lnames().empty()) text.names.push_back("--" + option.get_lnames().front());
  const bool is_argument = text.names.empty();
  text.value = is_argument ? option.get_name(true) : option.get_type_name();
  if (!is_argument && option.get_items_expected_max() == 0) text.value.clear();
  const std::string type = option.get_type_name();
  if (type.find('|') != std::string::npos) text.choices = split(type, '|');
  return text;
}

std::string without_full_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

std::string own_command() {
  return own_program().filename() == "accelerate-cpp" ? "accelerate-cpp" : "accelerate";
}

std::vector<Paragraph> paragraphs_of(const std::string& text) {
  std::vector<Paragraph> paragraphs;
  bool is_new = true;
  for (const std::string& line : split(text, '\n')) {
    const bool is_verbatim = line.starts_with(' ');
    if (trim(line).empty()) {
      is_new = true;
      continue;
    }
    if (is_new || paragraphs.back().is_verbatim != is_verbatim)
      paragraphs.push_back({line, is_verbatim});
    else
      paragraphs.back().text += (is_verbatim ? "\n" : " ") + line;
    is_new = false;
  }
  return paragraphs;
}

FlagText flag_text(const Flag& flag) {
  FlagText text{.names = {},
                .value = value_name(flag),
                .help = sentence(flag),
                .choices = words_of(flag),
                .group = std::string(heading(flag.group))};
  if (flag.letter != '\0') text.names.push_back(std::string("-") + flag.letter);
  text.names.push_back("--" + flag.name);
  return text;
}

CommandText command_text(const CLI::App& command) {
  CommandText text{.name = command.get_name(),
                   .full_name = full_name(command),
                   .about = without_full_stop(command.get_description()),
                   .group = command.get_group() == "Subcommands" ? "Commands" : command.get_group(),
                   .more = command.get_footer()};
  for (const CLI::Option* option : command.get_options()) {
    FlagText flag = option_text(*option);
    (flag.names.empty() ? text.arguments : text.flags).push_back(std::move(flag));
  }
  if (text.name == "launch") {
    text.arguments = {{.names = {}, .value = "PROGRAM"}, {.names = {}, .value = "[ARGUMENTS]"}};
    text.runs_program = true;
    for (const Flag& flag : launch_flags()) text.flags.push_back(flag_text(flag));
  }
  for (const CLI::App* inner : command.get_subcommands({}))
    text.commands.push_back(command_text(*inner));
  return text;
}

}  // namespace accelerate::cli
