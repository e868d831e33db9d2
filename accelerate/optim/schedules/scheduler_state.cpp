#include "accelerate/optim/schedules/scheduler_state.h"

#include <optional>
#include <type_traits>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

// Returns `value` as a T. Whole numbers also count as real numbers, as in JSON.
template <typename T>
std::optional<T> convert(const StateValue& value) {
  if (const T* same = std::get_if<T>(&value)) return *same;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  }
  if constexpr (std::is_same_v<T, std::vector<double>>) {
    if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&value)) {
      return std::vector<double>(whole->begin(), whole->end());
    }
  }
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    const auto* none = std::get_if<std::vector<double>>(&value);
    if (none != nullptr && none->empty()) return std::vector<std::int64_t>{};
  }
  return std::nullopt;
}

constexpr std::array<std::string_view, 6> kTypes = {
    "a truth value", "a whole number", "a number", "a text", "whole numbers", "a list of numbers"};

}  // namespace

const StateValue& StateVisitor::stored(const std::string& name) const {
  if (const auto found = state_.values.find(name); found != state_.values.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  for (const auto& [key, value] : state_.values) names.push_back(key);
  throw CheckpointError("the state of a schedule has no '" + name + "', only " + join(names, ", ") +
                        ": it was saved by another kind of schedule" + did_you_mean(name, names));
}

void StateVisitor::refuse(const std::string& name, std::string_view text) const {
  throw CheckpointError("the state of a schedule has '" + name + "' = '" + std::string(text) +
                        "', which this schedule does not know");
}

template <typename T>
void StateVisitor::visit(const std::string& name, T& value) {
  if (mode_ == Mode::save) {
    state_.values[name] = value;
    return;
  }
  const StateValue& found = stored(name);
  auto converted = convert<T>(found);
  if (!converted) {
    throw CheckpointError("'" + name + "' in the state of a schedule is " +
                          std::string(kTypes[found.index()]) + " where " +
                          std::string(kTypes[StateValue(value).index()]) + " is expected");
  }
  if (mode_ == Mode::load) value = std::move(*converted);
}

template void StateVisitor::visit(const std::string&, bool&);
template void StateVisitor::visit(const std::string&, std::int64_t&);
template void StateVisitor::visit(const std::string&, double&);
template void StateVisitor::visit(const std::string&, std::string&);
template void StateVisitor::visit(const std::string&, std::vector<std::int64_t>&);
template void StateVisitor::visit(const std::string&, std::vector<double>&);

bool StateVisitor::decides(const std::string& name, bool& value) {
  visit(name, value);
  return mode_ == Mode::check ? convert<bool>(stored(name)).value() : value;
}

void StateVisitor::positive(const std::string& name, std::int64_t& value) {
  if (mode_ == Mode::check) {
    const auto found = convert<std::int64_t>(stored(name));
    if (found && *found < 1) {
      throw CheckpointError("'" + name + "' in the state of a schedule is " +
                            std::to_string(*found) + "; allowed is 1 or more");
    }
  }
  visit(name, value);
}

void StateVisitor::require_count(const std::string& name, std::size_t groups) const {
  const auto found = convert<std::vector<double>>(stored(name));
  if (!found || found->size() == groups) return;
  throw CheckpointError("'" + name + "' in the state of a schedule has " +
                        std::to_string(found->size()) +
                        " values, one for each parameter group, and this optimizer has " +
                        std::to_string(groups) + " groups");
}

void StateVisitor::per_group(const std::string& name, std::vector<double>& values) {
  if (mode_ == Mode::check) require_count(name, values.size());
  visit(name, values);
}

void StateVisitor::optional_per_group(const std::string& name, std::vector<double>& values,
                                      std::size_t groups) {
  if (mode_ != Mode::save && !state_.values.contains(name)) return;
  if (mode_ == Mode::check) {
    const auto found = convert<std::vector<double>>(stored(name));
    if (found && !found->empty()) require_count(name, groups);
  }
  visit(name, values);
}

void StateVisitor::fixed_length(const std::string& name, std::vector<std::int64_t>& values) {
  if (mode_ == Mode::check) {
    const auto found = convert<std::vector<std::int64_t>>(stored(name));
    if (found && found->size() != values.size()) {
      throw CheckpointError("'" + name + "' in the state of a schedule has " +
                            std::to_string(found->size()) + " values where this one has " +
                            std::to_string(values.size()));
    }
  }
  visit(name, values);
}

// Returns the `count` states under `name`. Makes them when saving; else they must exist.
std::vector<SchedulerState>& StateVisitor::states(const std::string& name, std::size_t count) {
  auto& found = state_.nested[name];
  if (mode_ == Mode::save) found.resize(count);
  if (found.size() == count) return found;
  throw CheckpointError("the state of a schedule holds " + std::to_string(found.size()) +
                        " states under '" + name + "' where this schedule has " +
                        std::to_string(count) + ": it was saved by another kind of schedule");
}

void StateVisitor::nested(const std::string& name, std::size_t count,
                          const std::function<void(std::size_t index, StateVisitor&)>& visit) {
  auto& inner = states(name, count);
  for (std::size_t i = 0; i < count; ++i) {
    StateVisitor visitor(mode_, inner[i]);
    visit(i, visitor);
  }
}

void StateVisitor::inside(const std::string& name,
                          const std::function<void(StateVisitor&)>& visit) {
  nested(name, 1, [&visit](std::size_t, StateVisitor& visitor) { visit(visitor); });
}

}  // namespace accelerate
