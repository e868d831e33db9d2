#include <algorithm>

#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/trainer/arguments/bound_argument.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kHelpWidth = 80;

std::string help_of(const BoundArgument& argument) {
  std::string text = "  --" + argument.name;
  if (argument.is_on) text += ", --no_" + argument.name;
  for (const auto& alias : argument.aliases) text += ", --" + alias;
  const bool is_flag_alone = argument.bare && argument.type == "boolean";
  text += is_flag_alone ? "\n" : " <" + argument.type + ">\n";
  std::string about = argument.doc;
  if (!argument.choices.empty()) about += " One of: " + join(argument.choices, ", ") + ".";
  about += (about.empty() ? "Default: " : " Default: ") + argument.fallback + ".";
  return text + indented(about, 6, kHelpWidth);
}

}  // namespace

std::string help_text(const BoundArguments& bound, const std::string& program) {
  std::string text = "Usage: " + program + " [file of arguments] [--name value]...\n";
  std::string group;
  // The program's own arguments come first: they are new to the reader.
  for (const bool own : {true, false}) {
    for (const auto& argument : bound.all) {
      if (argument.is_hidden || (argument.group == "The program") != own) continue;
      if (argument.group != group) text += "\n" + argument.group + ":\n";
      group = argument.group;
      text += help_of(argument);
    }
  }
  return text + "\n  --help, -h\n      Prints this.\n";
}

}  // namespace accelerate::detail
