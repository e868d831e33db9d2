// Reads arguments of a training, and of a program beside them, from the command line or from a
// file, as Transformers' HfArgumentParser does.
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
// of one of these types. The value that a field has before parsing is its default.
//
//   program --learning_rate 2e-5 --num-train-epochs=2 --push_to_hub --no_remove_unused_columns
//           --report_to tensorboard csv --fsdp full_shard
//   program args.yaml --seed 3
//
// Flags are the names of fields, with `_` or `-`. A boolean stands alone or takes true or false. A
// boolean that is true by default also has --no_<name>. A list takes all words up to the next flag.
// Where a flag comes twice, the last one counts. A first argument that ends in .json, .yaml or .yml
// is a file of names and values; flags after it override the file.
#pragma once

#include <concepts>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "accelerate/base/run_main.h"
#include "accelerate/formats/documents/document.h"
#include "accelerate/transformers/trainer/arguments/bound_argument.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

// The arguments that TrainingArguments of Transformers 4 had and version 5 has not.

/// Returns the end of a message about the argument `name`: "was removed in Transformers 5; use …".
/// Returns nullopt for an argument that Transformers 5 did not remove, and for removed arguments
/// that this library has. `name` may begin with "no_".
[[nodiscard]] std::optional<std::string> removal_of(const std::string& name);

/// Warns that `name`, which stands for an argument that is still here, is a name of Transformers 4.
void warn_of_old_name(const std::string& name, const std::string& argument);

}  // namespace accelerate::detail

namespace accelerate {

/// Thrown for --help and -h. what() is the text to print before the program ends successfully. It
/// is not an Error, so that a handler of errors does not catch it; run_main() prints it.
class HelpRequested : public std::exception, public ProgramEnd {
 public:
  explicit HelpRequested(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] int exit_code() const noexcept override { return 0; }

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

// Fills all sections by `read(bound)` and returns them: a tuple, or the section itself if there is
// only one.
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

/// Sets the fields from `argv`; see parse_args. Throws ConfigError and HelpRequested.
void read_command_line(const BoundArguments& bound, int argc, const char* const* argv);

/// Sets the fields from the file; see parse_file. Throws ConfigError.
void read_arguments_file(const BoundArguments& bound, const std::filesystem::path& file);

/// Sets the fields from `map`; `file` stands for it in messages. Throws ConfigError.
void read_arguments_map(const BoundArguments& bound, const Node& map, const std::string& file);

}  // namespace detail

/// Returns the structs that `argv` fills: a tuple, or the struct itself if there is only one. The
/// first element of `argv` is the program's name. A struct that derives from TrainingArguments has
/// those arguments too. Throws ConfigError for an unknown flag (with the nearest one), a value that
/// is not allowed, and what validate() refuses. Throws UsageError when two structs have an argument
/// of the same name, and HelpRequested for --help.
template <typename... Sections>
[[nodiscard]] auto parse_args(int argc, const char* const* argv) {
  return detail::filled_sections<Sections...>(
      [&](const auto& bound) { detail::read_command_line(bound, argc, argv); });
}

/// Returns the structs that a file fills: one map of names and values, in JSON if the file's name
/// ends in .json, else in YAML. A null leaves the default. Throws ConfigError that names file and
/// line.
template <typename... Sections>
[[nodiscard]] auto parse_file(const std::filesystem::path& file) {
  return detail::filled_sections<Sections...>(
      [&](const auto& bound) { detail::read_arguments_file(bound, file); });
}

/// Returns every argument under Python's name and in Python's spelling, so that Python's
/// `TrainingArguments(**…)` takes the map. Arguments come in the order of the groups; arguments
/// that only Python has come last, with their defaults. Absent arguments are null. Arguments that
/// only this library has are included when they differ from their default. `hub_token` is
/// "<HUB_TOKEN>", never the token. A plugin in `fsdp_config` is written as the fields that have a
/// key.
[[nodiscard]] Node to_node(const TrainingArguments& args);

/// Returns the arguments in a map such as to_node() makes; `file` stands for the map in messages.
/// The token "<HUB_TOKEN>" is read as absent. Throws ConfigError as parse_file() does.
[[nodiscard]] TrainingArguments training_arguments_of(const Node& node, const std::string& file);

}  // namespace accelerate
