#include "cli/reference/command_text.h"

#include <algorithm>

#include "accelerate/base/text.h"

namespace accelerate::cli {
namespace {

// Escapes text for troff: no requests at the start of a line, real dashes.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
  return result;
}

std::string bold(const std::string& text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + roff(text) + "\\fR";
}

std::string entry(const std::string& head, const std::string& text) {
  return ".TP\n" + head + "\n" + roff(text) + "\n";
}

std::string head_of(const FlagText& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back(bold(name));
  return join(names, ", ") + (flag.value.empty() ? "" : " " + italic(flag.value));
}

std::string synopsis(const CommandText& command) {
  std::string line = bold(command.full_name) + " [" + italic("flags") + "]";
  for (const FlagText& argument : command.arguments) line += " " + italic(argument.value);
  if (!command.commands.empty()) line += " [" + italic("COMMAND ...") + "]";
  return line;
}

std::string description(const std::string& text) {
  std::string result = ".SH DESCRIPTION\n";
  for (const auto& [paragraph, is_verbatim] : paragraphs_of(text)) {
    result += is_verbatim ? ".PP\n.nf\n" : ".PP\n";
    for (const std::string& line : split(paragraph, '\n')) result += roff(line) + "\n";
    if (is_verbatim) result += ".fi\n";
  }
  return result;
}

std::string flag_sections(const CommandText& command) {
  std::vector<std::string> groups;
  for (const FlagText& flag : command.flags)
    if (std::ranges::find(groups, flag.group) == groups.end()) groups.push_back(flag.group);
  std::string page;
  for (const std::string& group : groups) {
    page += ".SS " + roff(group) + "\n";
    for (const FlagText& flag : command.flags)
      if (flag.group == group) page += entry(head_of(flag), flag.help);
  }
  return groups.empty() ? "" : ".SH OPTIONS\n" + page;
}

}  // namespace

std::string name_of_man_page(const CommandText& command) {
  std::string name = command.full_name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const CommandText& command) {
  std::string page = ".TH \"" + roff(name_of_man_page(command)) +
                     "\" 1 \"\" \"accelerate.cpp " ACCELERATE_VERSION "\"\n.SH NAME\n" +
                     roff(name_of_man_page(command)) + " \\- " + roff(command.about) +
                     "\n.SH SYNOPSIS\n" + synopsis(command) + "\n";
  if (!command.more.empty()) page += description(command.more);
  std::string arguments;
  for (const FlagText& argument : command.arguments)
    if (!argument.help.empty()) arguments += entry(italic(argument.value), argument.help);
  if (!arguments.empty()) page += ".SH ARGUMENTS\n" + arguments;
  if (!command.commands.empty()) page += ".SH COMMANDS\n";
  for (const CommandText& inner : command.commands) page += entry(bold(inner.name), inner.about);
  page += flag_sections(command);
  page += ".SH EXIT STATUS\n" + entry("0", "Done.") + entry("1", "It failed.") +
          entry("2", "A flag, file or variable has a value that is not allowed.");
  const bool launches = command.name == "launch" || command.name == "test";
  if (launches)
    page += entry("126, 127", "The program cannot be executed, or does not exist.") +
            entry("other", "The exit code of the first rank that failed.");
  if (launches || command.name == "config")
    page += entry("128 + n", "Ended by signal n: 130 by Ctrl-C.");
  if (!command.commands.empty()) {
    std::vector<std::string> pages;
    for (const CommandText& inner : command.commands)
      pages.push_back(bold(name_of_man_page(inner)) + "(1)");
    page += ".SH SEE ALSO\n" + join(pages, ", ") + "\n";
  }
  return page;
}

}  // namespace accelerate::cli
