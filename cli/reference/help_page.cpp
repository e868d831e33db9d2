#include "cli/reference/command_text.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"

namespace accelerate::cli {
namespace {

constexpr std::size_t kLeastColumns = 60, kMostColumns = 120, kWidestLeft = 32;

struct Row {
  std::string left, right, group;
};

std::string left_of(const FlagText& flag) {
  if (flag.names.empty()) return flag.value;
  const bool has_letter = flag.names.front().size() == 2;
  return (has_letter ? "" : "    ") + join(flag.names, ", ") +
         (flag.value.empty() ? "" : " " + flag.value);
}

// Returns both columns, with a heading before each group. Groups come in the order in which they
// first occur.
std::string rows_text(const std::vector<Row>& rows, std::size_t columns) {
  std::vector<std::string> groups;
  std::size_t widest = 0;
  for (const Row& row : rows) {
    if (std::ranges::find(groups, row.group) == groups.end()) groups.push_back(row.group);
    if (row.left.size() <= kWidestLeft) widest = std::max(widest, row.left.size());
  }
  constexpr std::size_t kIndent = 2, kGap = 2;
  const std::size_t column = kIndent + widest + kGap;
  std::string page;
  for (const std::string& group : groups) {
    page += "\n" + group + ":\n";
    for (const Row& row : rows) {
      if (row.group != group) continue;
      const std::string left = std::string(kIndent, ' ') + row.left;
      const std::string right = indented(row.right, column, columns);
      if (left.size() + kGap > column)
        page += left + "\n" + right;
      else
        page += left + std::string(column - left.size(), ' ') + right.substr(column);
    }
  }
  return page;
}

std::string usage(const CommandText& command) {
  std::string line = "Usage: " + command.full_name + " [flags]";
  for (const FlagText& argument : command.arguments) line += " " + argument.value;
  if (!command.commands.empty()) line += " [COMMAND ...]";
  return line;
}

class PageFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return help_page(command_text(*app), terminal_columns(STDOUT_FILENO));
  }
};

}  // namespace

std::string help_page(const CommandText& command, std::size_t columns) {
  columns = std::clamp(columns, kLeastColumns, kMostColumns);
  std::string page = usage(command) + "\n\n" + indented(command.about + ".", 0, columns);
  std::vector<Row> arguments, commands, flags;
  for (const FlagText& argument : command.arguments)
    if (!argument.help.empty()) arguments.push_back({argument.value, argument.help, "Arguments"});
  for (const CommandText& inner : command.commands)
    commands.push_back({inner.name, inner.about, inner.group});
  for (const FlagText& flag : command.flags)
    flags.push_back({left_of(flag), flag.help, flag.group});
  page += rows_text(arguments, columns) + rows_text(commands, columns) + rows_text(flags, columns);
  for (const auto& [text, is_verbatim] : paragraphs_of(command.more))
    page += "\n" + (is_verbatim ? text + "\n" : indented(text, 0, columns));
  return page;
}

void use_help_pages(CLI::App& app) {
  app.formatter(std::make_shared<PageFormatter>());
}

}  // namespace accelerate::cli
