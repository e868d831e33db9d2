// The state of an object as pure data, as a checkpoint writes and reads it: a tree of numbers,
// text, lists, dictionaries and tensors. Nothing in it can be executed.
//
//   struct EarlyStopping {
//     double best = std::numeric_limits<double>::infinity();
//     std::int64_t bad_epochs = 0;
//     StateDict state_dict() const { return {{"best", best}, {"bad_epochs", bad_epochs}}; }
//     void load_state_dict(const StateDict& state) {
//       best = state.at("best").to<double>();
//       bad_epochs = state.at("bad_epochs").to<std::int64_t>();
//     }
//   };
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate {

/// One value: nothing, a boolean, an integer, a real, text, a tensor, a list or a dictionary. A
/// tensor may have any device and dtype, and must be defined when it is saved. Keys of a dictionary
/// are sorted. Copies share tensors.
class StateDict {
 public:
  using List = std::vector<StateDict>;
  using Dict = std::map<std::string, StateDict, std::less<>>;

  StateDict() = default;
  StateDict(bool value) : value_(value) {}  // NOLINT(google-explicit-constructor): values as such
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  StateDict(T value) : value_(static_cast<std::int64_t>(value)) {}  // NOLINT
  StateDict(double value) : value_(value) {}                        // NOLINT
  StateDict(const char* value) : value_(std::string(value)) {}      // NOLINT
  StateDict(std::string value) : value_(std::move(value)) {}        // NOLINT
  StateDict(at::Tensor value) : value_(std::move(value)) {}         // NOLINT
  StateDict(List value) : value_(std::move(value)) {}               // NOLINT
  StateDict(Dict value) : value_(std::move(value)) {}               // NOLINT
  /// A dictionary. If two entries have the same key, the last one counts.
  StateDict(std::initializer_list<std::pair<std::string, StateDict>> entries);
  /// A list of values, such as numbers or texts.
  template <typename T>
    requires std::constructible_from<StateDict, T>
  explicit StateDict(const std::vector<T>& values) : value_(List(values.begin(), values.end())) {}

  [[nodiscard]] bool is_null() const { return holds<std::monostate>(); }
  /// Whether the value is a T: bool, std::int64_t, double, std::string, at::Tensor, List or Dict.
  template <typename T>
  [[nodiscard]] bool holds() const {
    return std::holds_alternative<T>(value_);
  }

  /// Returns the value as a bool, a number, std::string, at::Tensor, List or Dict. An integer is
  /// also accepted as a real if a double holds it exactly. Throws CheckpointError, with the value
  /// found, for other types.
  template <typename T>
  [[nodiscard]] T to() const;

  /// Returns entry `key` of a dictionary. Throws CheckpointError, with the existing keys, if there
  /// is none.
  [[nodiscard]] const StateDict& at(std::string_view key) const;
  /// Returns entry `key` of a dictionary, or nullptr if there is none. Throws CheckpointError if
  /// the value is not a dictionary.
  [[nodiscard]] const StateDict* find(std::string_view key) const;
  /// Returns entry `key`, and creates it if there is none. A null value becomes a dictionary. For
  /// building.
  StateDict& operator[](const std::string& key);

  [[nodiscard]] const List& list() const;
  [[nodiscard]] const Dict& dict() const;

  /// Describes the value for messages: "a list of 3", "the text 'adam'", "nothing".
  [[nodiscard]] std::string describe() const;

  /// Calls `visit` with every tensor and its place, e.g. "state.0.exp_avg". Places are unique
  /// unless keys contain dots.
  template <typename Visit>
  void for_each_tensor(const Visit& visit, const std::string& place = {}) {
    if (auto* tensor = std::get_if<at::Tensor>(&value_)) visit(place, *tensor);
    const std::string prefix = place.empty() ? place : place + '.';
    if (auto* list = std::get_if<List>(&value_)) {
      for (std::size_t i = 0; i < list->size(); ++i)
        (*list)[i].for_each_tensor(visit, prefix + std::to_string(i));
    } else if (auto* dict = std::get_if<Dict>(&value_)) {
      for (auto& [key, value] : *dict) value.for_each_tensor(visit, prefix + key);
    }
  }

 private:
  using Value =
      std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor, List, Dict>;

  [[noreturn]] void refuse(std::string_view expected) const;
  [[nodiscard]] std::int64_t integer(std::int64_t lowest, std::int64_t highest) const;
  [[nodiscard]] double real() const;

  Value value_;
};

template <typename T>
T StateDict::to() const {
  if constexpr (std::same_as<T, bool>) {
    if (const auto* value = std::get_if<bool>(&value_)) return *value;
    refuse("true or false");
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    static_assert(sizeof(T) < 8 || std::signed_integral<T>, "states hold signed integers");
    return static_cast<T>(integer(Limits::min(), Limits::max()));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(real());
  } else {
    if (const T* value = std::get_if<T>(&value_)) return *value;
    if constexpr (std::same_as<T, std::string>) refuse("text");
    if constexpr (std::same_as<T, at::Tensor>) refuse("a tensor");
    if constexpr (std::same_as<T, List>) refuse("a list");
    refuse("a dictionary");
  }
}

}  // namespace accelerate
