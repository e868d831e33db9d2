// Arguments bound to the fields that they set. Command lines and files are read into them.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/launch/config/key_table.h"
#include "accelerate/transformers/trainer/arguments/argument_values.h"
#include "accelerate/transformers/trainer/arguments/training_arguments.h"

namespace accelerate::detail {

struct BoundArgument {
  std::string name{};
  std::string group{};  ///< A heading of --help.
  std::string doc{};
  std::string type{};
  std::string allowed{};   ///< Completes the message "allowed is …".
  std::string fallback{};  ///< The default as --help shows it.
  std::vector<std::string> aliases{};
  std::vector<std::string> choices{};
  std::optional<std::string> bare{};  ///< What the flag means without a value.
  bool is_list = false;               ///< Takes all words up to the next flag.
  bool is_on = false;                 ///< A boolean that is true by default and so has --no_<name>.
  bool is_hidden = false;             ///< Not in --help.
  /// Sets the field. Returns "" or what is wrong with the value.
  std::function<std::string(const Node&)> read{};
};

/// All arguments of a program.
struct BoundArguments {
  std::vector<BoundArgument> all;
  std::vector<std::function<void()>> checks;  ///< Compare fields, once all are read.
};

/// What files hold in place of the hub's token, as Python writes them. Read as an absent token.
inline constexpr const char* kTokenPlaceholder = "<HUB_TOKEN>";

/// Binds the fields of a training's arguments.
void bind_training_arguments(TrainingArguments& args, BoundArguments& bound);

/// Returns the default as --help shows it.
[[nodiscard]] std::string fallback_text(const std::optional<Node>& value);

/// Binds the fields of a program's own struct. visit_arguments calls it for each field.
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
  // Unsigned 64-bit numbers are read only up to the greatest signed one.
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

/// Runs the checks that compare fields.
void check_arguments(const BoundArguments& bound);

/// Returns what --help prints.
[[nodiscard]] std::string help_text(const BoundArguments& bound, const std::string& program);

}  // namespace accelerate::detail
