// The state of a schedule, as plain data that a checkpoint can write and read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate {

using StateValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                std::vector<double>>;

/// A schedule's state under the keys that PyTorch uses. Numbers may be infinite.
struct SchedulerState {
  std::map<std::string, StateValue> values;
  /// States inside this one: "_schedulers" of a SequentialLR holds the states of its schedules, in
  /// order.
  std::map<std::string, std::vector<SchedulerState>> nested;

  friend bool operator==(const SchedulerState& a, const SchedulerState& b) {
    return a.values == b.values && a.nested == b.nested;
  }
};

/// The texts of an enumeration in Python and in a state, in the order of its values.
/// Specialisations define `kTexts`.
template <typename E>
struct EnumTexts;

/// Visits the fields of a schedule, to save them into a state or to load them from one. A schedule
/// names its fields once, in LRScheduler::visit_state:
///
///   void visit_state(StateVisitor& field) override {
///     LRScheduler::visit_state(field);
///     field("gamma", gamma_);
///   }
///
/// Loading throws CheckpointError if the state lacks a field or has it with another type or out of
/// range.
class StateVisitor {
 public:
  /// `check` reads and compares without changing a field.
  enum class Mode { save, check, load };

  StateVisitor(Mode mode, SchedulerState& state) : mode_(mode), state_(state) {}

  template <typename T>
  void operator()(const std::string& name, T& value) {
    if constexpr (requires { EnumTexts<T>::kTexts; }) {
      visit_enum(name, value, EnumTexts<T>::kTexts);
    } else {
      visit(name, value);
    }
  }
  /// Visits a field that states of PyTorch lack. If the state lacks it, the field keeps its value.
  template <typename T>
  void optional(const std::string& name, T& value) {
    if (mode_ == Mode::save || state_.values.contains(name)) (*this)(name, value);
  }
  /// Visits a truth value that decides which fields follow. Returns the value after loading.
  [[nodiscard]] bool decides(const std::string& name, bool& value);
  /// Visits a whole number of at least 1, by which steps are divided.
  void positive(const std::string& name, std::int64_t& value);
  /// Visits one number per parameter group. The length must not change.
  void per_group(const std::string& name, std::vector<double>& values);
  /// As per_group, for `groups` groups. States of PyTorch may lack the field, and other states may
  /// hold an empty list.
  void optional_per_group(const std::string& name, std::vector<double>& values, std::size_t groups);
  /// Visits whole numbers. The length must not change.
  void fixed_length(const std::string& name, std::vector<std::int64_t>& values);
  /// Visits `count` nested states in order. Their number must not change.
  void nested(const std::string& name, std::size_t count,
              const std::function<void(std::size_t index, StateVisitor&)>& visit);
  /// Visits fields in one nested state.
  void inside(const std::string& name, const std::function<void(StateVisitor&)>& visit);

 private:
  template <typename T>
  void visit(const std::string& name, T& value);
  [[nodiscard]] std::vector<SchedulerState>& states(const std::string& name, std::size_t count);
  [[nodiscard]] const StateValue& stored(const std::string& name) const;
  void require_count(const std::string& name, std::size_t groups) const;
  [[noreturn]] void refuse(const std::string& name, std::string_view text) const;

  template <typename E, std::size_t n>
  void visit_enum(const std::string& name, E& value, const std::array<std::string_view, n>& texts) {
    std::string text(texts[static_cast<std::size_t>(value)]);
    const Mode mode = std::exchange(mode_, mode_ == Mode::check ? Mode::load : mode_);
    visit(name, text);  // Even a check may load the local text.
    mode_ = mode;
    const auto found = std::find(texts.begin(), texts.end(), text);
    if (found == texts.end()) refuse(name, text);
    if (mode_ == Mode::load) value = static_cast<E>(found - texts.begin());
  }

  Mode mode_;
  SchedulerState& state_;
};

}  // namespace accelerate
