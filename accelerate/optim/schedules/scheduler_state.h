// What a schedule remembers, as plain data that a checkpoint can write and read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate {

class LRScheduler;

using StateValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                std::vector<double>>;

/// A schedule's state under the keys that PyTorch uses. Numbers may be infinite.
struct SchedulerState {
  std::map<std::string, StateValue> values;
  /// The states inside this one: those of a SequentialLR under "_schedulers", in their order.
  std::map<std::string, std::vector<SchedulerState>> nested;

  friend bool operator==(const SchedulerState& a, const SchedulerState& b) {
    return a.values == b.values && a.nested == b.nested;
  }
};

/// The spellings of an enumeration in Python and in a state, in the order of its values; a
/// specialisation has `kTexts`.
template <typename E>
struct EnumTexts;

/// Goes over the fields of a schedule, to save them into a state or to load them from one. A
/// schedule names its fields once, in LRScheduler::visit_state:
///
///   void visit_state(StateVisitor& field) override {
///     LRScheduler::visit_state(field);
///     field("gamma", gamma_);
///   }
///
/// While loading, a field that the state lacks, has with another type, or out of its range, is a
/// CheckpointError.
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
  /// A field that a state written by PyTorch does not have: it then keeps its value.
  template <typename T>
  void optional(const std::string& name, T& value) {
    if (mode_ == Mode::save || state_.values.contains(name)) (*this)(name, value);
  }
  /// A truth value on which it depends what fields follow; returns what it is to be.
  [[nodiscard]] bool decides(const std::string& name, bool& value);
  /// A whole number of 1 or more, by which steps are divided.
  void positive(const std::string& name, std::int64_t& value);
  /// One number for each parameter group: the length must not change.
  void per_group(const std::string& name, std::vector<double>& values);
  /// The same where a state written by PyTorch lacks it, and others may have none for any of the
  /// `groups`.
  void optional_per_group(const std::string& name, std::vector<double>& values, std::size_t groups);
  /// Whole numbers, as many as there are.
  void fixed_length(const std::string& name, std::vector<std::int64_t>& values);
  /// The states of other schedules, which must be equally many.
  void nested(const std::string& name, const std::vector<std::shared_ptr<LRScheduler>>& schedulers);
  /// Fields in a state of their own.
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
    visit(name, text);  // The local text may be loaded even in a check.
    mode_ = mode;
    const auto found = std::find(texts.begin(), texts.end(), text);
    if (found == texts.end()) refuse(name, text);
    if (mode_ == Mode::load) value = static_cast<E>(found - texts.begin());
  }

  Mode mode_;
  SchedulerState& state_;
};

}  // namespace accelerate
