#include "accelerate/transformers/trainer/arguments/parse_args.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/key_table.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/arguments/sections.h"

namespace accelerate {
namespace detail {
namespace {

using ArgumentWords = std::vector<std::string>;

std::string underscored(std::string_view flag) {
  std::string name(flag);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_flag(std::string_view word) {
  return word.starts_with("--") && word.size() > 2;
}

bool is_arguments_file(std::string_view word) {
  const std::string name = lower(word);
  return !word.starts_with("-") &&
         (name.ends_with(".json") || name.ends_with(".yaml") || name.ends_with(".yml"));
}

// Finds arguments by any of their names.
class ArgumentIndex {
 public:
  explicit ArgumentIndex(const BoundArguments& bound) {
    for (const auto& argument : bound.all) {
      add(argument.name, argument);
      for (const auto& alias : argument.aliases) add(alias, argument);
    }
  }

  [[nodiscard]] const BoundArgument* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  /// Returns the boolean that `name`, "no_<boolean>", turns off; nullptr if there is none.
  [[nodiscard]] const BoundArgument* find_negated(const std::string& name) const {
    const auto* argument = name.starts_with("no_") ? find(name.substr(3)) : nullptr;
    return argument != nullptr && argument->is_on ? argument : nullptr;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, argument] : by_name_) all.push_back(name);
    return all;
  }

 private:
  void add(const std::string& name, const BoundArgument& argument) {
    if (by_name_.emplace(name, &argument).second) return;
    throw UsageError("two structs of parse_args have an argument '" + name +
                     "'. Give one of them another name in its visit_arguments");
  }

  std::map<std::string, const BoundArgument*> by_name_;
};

void take_value(const std::string& flag, const BoundArgument& argument, const Node& node) {
  const auto found = [&] { return node.is_sequence() ? one_line(node) : "'" + node.text + "'"; };
  std::string problem;
  try {
    problem = argument.read(node);
  } catch (const ConfigError&) {
    throw_with_context<ConfigError>(flag + " is " + found() + ", which is not allowed");
  }
  if (problem.empty()) return;
  throw ConfigError(flag + " is " + found() + "; " + problem + "." +
                    (node.is_scalar() ? did_you_mean(node.text, argument.choices) : ""));
}

[[noreturn]] void fail_unknown_flag(const std::string& flag, const ArgumentIndex& index) {
  const std::string name = underscored(std::string_view(flag).substr(2));
  if (const auto removal = removal_of(name))
    throw ConfigError("the flag '" + flag + "' " + *removal + ".");
  const auto near = nearest(name, index.names());
  throw ConfigError("unknown flag '" + flag + "'." +
                    (near ? " Did you mean '--" + *near + "'?" : "") + " --help lists the flags.");
}

class CommandLine {
 public:
  CommandLine(const BoundArguments& bound, std::span<const std::string> words)
      : index_(bound), words_(words) {}

  void read() {
    while (at_ < words_.size()) read_flag(words_[at_++]);
  }

 private:
  void read_flag(const std::string& word) {
    if (!is_flag(word))
      throw ConfigError("'" + word +
                        "' stands where a flag belongs, such as --learning_rate; a file of "
                        "arguments comes first and ends in .json, .yaml or .yml.");
    const auto equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    const std::string name = underscored(std::string_view(flag).substr(2));
    if (const auto* argument = index_.find(name)) {
      warn_of_old_name(name, argument->name);
      take_value(flag, *argument,
                 equals == std::string::npos ? value_after(flag, *argument)
                                             : plain_text(word.substr(equals + 1)));
    } else if (const auto* negated = index_.find_negated(name)) {
      if (equals != std::string::npos) throw ConfigError(flag + " takes no value.");
      take_value(flag, *negated, Node::boolean(false));
    } else {
      fail_unknown_flag(flag, index_);
    }
  }

  // Returns the words up to the next flag, at most as many as the argument takes.
  Node value_after(const std::string& flag, const BoundArgument& argument) {
    std::vector<Node> values;
    const std::size_t most = argument.is_list ? words_.size() : 1;
    while (values.size() < most && at_ < words_.size() && !is_flag(words_[at_])) {
      values.push_back(plain_text(words_[at_++]));
    }
    if (values.empty()) {
      if (argument.bare) return plain_text(*argument.bare);
      throw ConfigError(flag + " needs a value; allowed is " + argument.allowed + ".");
    }
    return argument.is_list ? Node::sequence(std::move(values)) : std::move(values.front());
  }

  ArgumentIndex index_;
  std::span<const std::string> words_;
  std::size_t at_ = 0;
};

bool asks_for_help(const ArgumentWords& words) {
  return std::ranges::any_of(
      words, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

}  // namespace

void read_command_line(const BoundArguments& bound, int argc, const char* const* argv) {
  const std::string program = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  const ArgumentWords words(argv + std::min(argc, 1), argv + argc);
  if (asks_for_help(words)) throw HelpRequested(help_text(bound, program));
  std::span<const std::string> rest(words);
  if (!rest.empty() && is_arguments_file(rest.front())) {
    read_arguments_file(bound, rest.front());
    rest = rest.subspan(1);
  }
  CommandLine(bound, rest).read();
}

void read_arguments_file(const BoundArguments& bound, const std::filesystem::path& file) {
  read_arguments_map(bound, read_settings_file(file, "the file of arguments"), file.string());
}

void read_arguments_map(const BoundArguments& bound, const Node& map, const std::string& file) {
  if (!map.is_map())
    fail_at(file, map.line,
            "the file of arguments holds " + map.describe() +
                "; allowed are names and values, such as 'learning_rate: 2.0e-5'");
  const ArgumentIndex index(bound);
  std::set<const BoundArgument*> seen;
  for (const NodeEntry& entry : map.entries) {
    const std::string name = underscored(entry.key);
    const auto* argument = index.find(name);
    if (argument == nullptr) {
      if (const auto removal = removal_of(name))
        fail_at(file, entry.line, "the argument '" + entry.key + "' " + *removal);
      fail_at(file, entry.line,
              "unknown argument '" + entry.key + "'." + did_you_mean(name, index.names()) +
                  " Correct the name or remove it");
    }
    if (!seen.insert(argument).second)
      fail_at(file, entry.line,
              "'" + entry.key + "' is '" + argument->name +
                  "', which the file has already. Remove one of them");
    warn_of_old_name(name, argument->name);
    if (entry.value.is_null()) continue;
    std::string problem;
    try {
      problem = argument->read(entry.value);
    } catch (const ConfigError&) {
      throw_with_context<ConfigError>(file + ", line " + std::to_string(entry.line) + ": '" +
                                      entry.key + "' has a value that is not allowed");
    }
    if (problem.empty()) continue;
    fail_at(file, entry.line,
            "'" + entry.key + "' is " + entry.value.describe() + "; " + problem + "." +
                (entry.value.is_scalar() ? did_you_mean(entry.value.text, argument->choices) : ""));
  }
}

}  // namespace detail

Node to_node(const TrainingArguments& args) {
  static const TrainingArguments kDefaults;
  Node map = Node::map();
  for (const auto& key : detail::argument_table().keys) {
    Node value = key.write(args).value_or(Node::null());
    if (detail::is_of_this_library(key.name)) {
      const Node usual = key.write(kDefaults).value_or(Node::null());
      if (detail::one_line(value) == detail::one_line(usual)) continue;
    }
    if (key.name == "hub_token") value = Node::string(detail::kTokenPlaceholder);
    map.entries.push_back({key.name, 0, std::move(value)});
  }
  for (const auto& argument : detail::python_arguments())
    map.entries.push_back({argument.name, 0, argument.fallback});
  return map;
}

TrainingArguments training_arguments_of(const Node& node, const std::string& file) {
  return detail::filled_sections<TrainingArguments>(
      [&](const auto& bound) { detail::read_arguments_map(bound, node, file); });
}

}  // namespace accelerate
