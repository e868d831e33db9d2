#include "accelerate/transformers/trainer/arguments/bound_argument.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

// Returns what the flag means without a value; nothing if it needs a value.
std::optional<std::string> value_of_bare_flag(const Key<TrainingArguments>& key) {
  const bool may_stand_alone =
      key.type == KeyValue<bool>::type || key.type == KeyValue<FsdpOption>::type ||
      key.type == KeyValue<ResumeOption>::type || key.name == "include_num_input_tokens_seen";
  return may_stand_alone ? std::optional<std::string>("true") : std::nullopt;
}

bool takes_many_words(const Key<TrainingArguments>& key) {
  return key.type == KeyValue<Words>::type || key.type == KeyValue<FsdpOption>::type;
}

BoundArgument bound_line(const Key<TrainingArguments>& key, const std::string& group,
                         TrainingArguments& args) {
  BoundArgument line{.name = key.name, .group = group, .doc = key.doc};
  line.type = key.type;
  line.allowed = key.allowed;
  line.fallback = fallback_text(key.write(args));  // A program may have other defaults.
  line.aliases = key.rules.aliases;
  line.choices = key.choices;
  line.bare = value_of_bare_flag(key);
  line.is_list = takes_many_words(key);
  line.is_on = line.fallback == "true";
  const bool is_token = key.name == "hub_token";
  line.read = [&key, &args, is_token](const Node& node) -> std::string {
    if (is_token && node.text == kTokenPlaceholder) return "";
    return key.read(args, node) ? "" : "allowed is " + key.allowed;
  };
  return line;
}

BoundArgument bound_line(const PythonArgument& argument) {
  BoundArgument line{.name = argument.name, .group = "Python"};
  line.is_hidden = true;
  if (argument.fallback.text == "true" || argument.fallback.text == "false") line.bare = "true";
  line.is_on = argument.fallback.text == "true";
  line.read = [&argument](const Node& node) -> std::string {
    const Node value = unfold_map(node, argument.name);
    if (argument.is_harmless(value)) return "";
    if (argument.refused) return "only Python's Trainer has it. " + argument.reason;
    trainer_logger().warning("the argument " + argument.name +
                             " has no effect: " + argument.reason + ".");
    return "";
  };
  return line;
}

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

std::string fallback_text(const std::optional<Node>& value) {
  return value && !value->is_null() ? one_line(*value) : "absent";
}

void bind_training_arguments(TrainingArguments& args, BoundArguments& bound) {
  for (const auto& group : argument_groups()) {
    for (const auto& key : group.keys) bound.all.push_back(bound_line(key, group.title, args));
  }
  for (const auto& argument : python_arguments()) bound.all.push_back(bound_line(argument));
  bound.checks.emplace_back([&args] { validate(args); });
}

void check_arguments(const BoundArguments& bound) {
  for (const auto& check : bound.checks) check();
}

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
