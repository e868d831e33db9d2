// Arguments of a training, and of a program beside them, from the command line or from a file, as
// Transformers' HfArgumentParser reads them.
//
//   struct ScriptArguments {
//     std::string model = "bert-base-cased";
//     std::int64_t max_length = 128;
//   };
//   template <typename Visit>
//   void visit_arguments(ScriptArguments& mine, Visit&& argument) {
//     argument("model", mine.model, "Name or folder of the model.");
//     argument("max_length", mine.max_length, "Tokens that a text is cut to.");
//   }
//
//   int main(int argc, char** argv) try {
//     auto [args, mine] =
//         accelerate::parse_args<accelerate::TrainingArguments, ScriptArguments>(argc, argv);
//     …
//   } catch (const accelerate::HelpRequested& help) {
//     std::cout << help.what();
//   }
//
// A field may be a boolean, a number, a std::string, a std::filesystem::path, a list of texts
// (std::vector<std::string> or Words), a Word of an enumeration that has words, or a std::optional
// of these. Its value when parse_args begins is its default.
//
//   program --learning_rate 2e-5 --num-train-epochs=2 --push_to_hub --no_remove_unused_columns
//           --report_to tensorboard csv --fsdp full_shard
//   program args.yaml --seed 3
//
// Flags are the names of fields with `_` or `-`. A boolean stands alone or takes true or false, and
// one that is true by default has --no_<name>. A list takes all words up to the next flag. A flag
// that comes twice counts the last time. A first argument that ends in .json, .yaml or .yml is a
// file of names and values; flags after it count more.
#pragma once

#include <concepts>
#include <exception>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>

#include "accelerate/formats/documents/document.h"
#include "accelerate/trainer/arguments/bound_argument.h"
#include "accelerate/trainer/arguments/training_arguments.h"

namespace accelerate {

/// --help or -h was given; what() is the text to print before the program ends well. No Error, so
/// that a handler of errors does not take it for one.
class HelpRequested : public std::exception {
 public:
  explicit HelpRequested(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

namespace detail {

template <typename Section>
concept VisitedSection =
    requires(Section& section, const ArgumentBinder& binder) { visit_arguments(section, binder); };

template <typename Section>
void bind_section(Section& section, BoundArguments& bound) {
  constexpr bool kIsTraining = std::derived_from<Section, TrainingArguments>;
  static_assert(kIsTraining || VisitedSection<Section>,
                "parse_args needs TrainingArguments, or a struct with a function "
                "visit_arguments(Struct&, argument) beside it: see parse_args.h");
  if constexpr (kIsTraining) bind_training_arguments(section, bound);
  if constexpr (VisitedSection<Section>) visit_arguments(section, ArgumentBinder(bound));
}

// Fills all sections by `read(bound)` and hands them over: a tuple, or the only one.
template <typename... Sections, typename Read>
auto filled_sections(Read read) {
  static_assert(sizeof...(Sections) > 0, "parse_args needs the type of a struct to fill");
  std::tuple<Sections...> sections;
  BoundArguments bound;
  std::apply([&](auto&... each) { (bind_section(each, bound), ...); }, sections);
  read(std::as_const(bound));
  check_arguments(bound);
  if constexpr (sizeof...(Sections) == 1) {
    return std::get<0>(std::move(sections));
  } else {
    return sections;
  }
}

}  // namespace detail

/// The structs that `argv` fills, the first element being the program's name: a tuple of them, or
/// the bare struct for one. A struct that derives from TrainingArguments has those arguments too.
/// Throws ConfigError for an unknown flag (with the nearest one), a value that is not allowed, and
/// what validate() refuses; UsageError when two structs have an argument of one name; HelpRequested
/// for --help.
template <typename... Sections>
[[nodiscard]] auto parse_args(int argc, const char* const* argv) {
  return detail::filled_sections<Sections...>(
      [&](const auto& bound) { detail::read_command_line(bound, argc, argv); });
}

/// The same from a file of JSON (by its name's end) or YAML: one map of names and values. A null
/// leaves the default. Throws ConfigError, which names file and line.
template <typename... Sections>
[[nodiscard]] auto parse_file(const std::filesystem::path& file) {
  return detail::filled_sections<Sections...>(
      [&](const auto& bound) { detail::read_arguments_file(bound, file); });
}

/// Every argument under Python's name in Python's spelling, in the order of the groups, then those
/// that only Python has with their defaults: `TrainingArguments(**…)` of Python takes it. What is
/// absent is null; arguments of this library alone are there when they are not their default.
/// `hub_token` is "<HUB_TOKEN>", never the token. Of a plugin in `fsdp_config` the fields are there
/// that have a key.
[[nodiscard]] Node to_node(const TrainingArguments& args);

/// The arguments that a map such as to_node()'s holds; `file` stands for it in messages. The token
/// is absent then. Throws ConfigError as parse_file() does.
[[nodiscard]] TrainingArguments training_arguments_of(const Node& node, const std::string& file);

}  // namespace accelerate
