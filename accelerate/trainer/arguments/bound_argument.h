// Arguments bound to the fields that they set: what a command line and a file are read into.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/config/key_table.h"
#include "accelerate/trainer/arguments/argument_values.h"
#include "accelerate/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

struct BoundArgument {
  std::string name{};
  std::string group{};  ///< A heading of --help.
  std::string doc{};
  std::string type{};
  std::string allowed{};   ///< The end of "allowed is …".
  std::string fallback{};  ///< The default as --help shows it.
  std::vector<std::string> aliases{};
  std::vector<std::string> choices{};
  std::optional<std::string> bare{};  ///< The value of a flag that stands alone.
  bool is_list = false;               ///< Takes all words up to the next flag.
  bool is_on = false;                 ///< A boolean that is true by default: there is --no_<name>.
  bool is_hidden = false;             ///< Not in --help.
  /// "" when the value was taken, else what is wrong with it.
  std::function<std::string(const Node&)> read{};
};

/// All arguments of a program.
struct BoundArguments {
  std::vector<BoundArgument> all;
  std::vector<std::function<void()>> checks;  ///< Of fields against one another, once all are read.
};

/// Binds the fields of a training's arguments.
void bind_training_arguments(TrainingArguments& args, BoundArguments& bound);

/// The default as --help shows it.
[[nodiscard]] std::string fallback_text(const std::optional<Node>& value);

/// Binds fields of a program's own struct: what visit_arguments calls.
class ArgumentBinder {
 public:
  explicit ArgumentBinder(BoundArguments& bound) : bound_(bound) {}

  template <typename T>
  void operator()(std::string name, T& member, std::string doc = {}) const {
    using Plainly = typename Plain<T>::type;
    using V = KeyValue<Plainly>;
    const KeyRules rules = rules_of<Plainly>();
    BoundArgument line{.name = std::move(name), .group = "The program", .doc = std::move(doc)};
    line.type = V::type;
    line.allowed = V::allowed(rules);
    line.choices = V::choices(rules);
    line.fallback = fallback_text(written(member));
    if constexpr (std::same_as<Plainly, bool>) line.bare = "true";
    if constexpr (std::same_as<T, bool>) line.is_on = member;
    line.is_list = std::is_base_of_v<std::vector<std::string>, Plainly>;
    line.read = [&member, rules](const Node& node) -> std::string {
      auto value = V::read(node, rules);
      if (!value) return "allowed is " + V::allowed(rules);
      member = std::move(*value);
      return "";
    };
    bound_.all.push_back(std::move(line));
  }

 private:
  // An unsigned 64-bit number is read as far as a signed one goes.
  template <typename T>
  static KeyRules rules_of() {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == sizeof(std::int64_t)) {
      return {.min = 0, .max = std::numeric_limits<std::int64_t>::max()};
    } else {
      return {};
    }
  }

  template <typename T>
  static std::optional<Node> written(const T& member) {
    if constexpr (requires { member.has_value(); }) {
      return member ? written(*member) : std::nullopt;
    } else {
      return KeyValue<T>::write(member);
    }
  }

  BoundArguments& bound_;
};

/// Sets what `argv` says, see parse_args. Throws ConfigError, and HelpRequested.
void read_command_line(const BoundArguments& bound, int argc, const char* const* argv);

/// Sets what the file says, see parse_file. Throws ConfigError.
void read_arguments_file(const BoundArguments& bound, const std::filesystem::path& file);

/// Sets what `map` says; `file` stands for it in messages. Throws ConfigError.
void read_arguments_map(const BoundArguments& bound, const Node& map, const std::string& file);

/// Runs the checks of all fields together.
void check_arguments(const BoundArguments& bound);

/// What --help prints.
[[nodiscard]] std::string help_text(const BoundArguments& bound, const std::string& program);

}  // namespace accelerate::detail
