#include "accelerate/checkpoint/codecs.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <variant>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

StateDict plain(const StateValue& value) {
  return std::visit([](const auto& held) { return StateDict(held); }, value);
}

template <typename T>
std::vector<T> numbers(const StateDict::List& list) {
  std::vector<T> all;
  for (const auto& item : list) all.push_back(item.to<T>());
  return all;
}

// Returns the count `key`, at least `least`. The greatest integer is refused because counting goes
// on from it.
std::int64_t count(const StateDict& value, const std::string& key, std::int64_t least = 0) {
  const auto number = value.to<std::int64_t>();
  if (number >= least && number < std::numeric_limits<std::int64_t>::max()) return number;
  throw CheckpointError("'" + key + "' is " + std::to_string(number) + "; allowed is " +
                        std::to_string(least) + " to 2^63 - 2");
}

std::int64_t count_at(const StateDict& state, const char* key, std::int64_t least = 0) {
  return count(state.at(key), key, least);
}

StateValue scheduler_value(const std::string& key, const StateDict& state) {
  if (key == "last_epoch" && state.holds<std::int64_t>()) return count(state, key, -1);
  if (state.holds<bool>()) return state.to<bool>();
  if (state.holds<std::int64_t>()) return state.to<std::int64_t>();
  if (state.holds<double>()) return state.to<double>();
  if (state.holds<std::string>()) return state.to<std::string>();
  if (!state.holds<StateDict::List>())
    throw CheckpointError("'" + key + "' of a schedule is " + state.describe() +
                          "; it must be a number, a text or a list of numbers");
  const auto& list = state.list();
  const bool whole =
      std::ranges::all_of(list, [](const StateDict& item) { return item.holds<std::int64_t>(); });
  if (whole) return numbers<std::int64_t>(list);
  return numbers<double>(list);
}

bool is_nested(const StateDict& state) {
  return state.holds<StateDict::List>() && !state.list().empty() &&
         state.list().front().holds<StateDict::Dict>();
}

}  // namespace

StateDict to_state_dict(const SchedulerState& state) {
  StateDict::Dict dict;
  for (const auto& [key, value] : state.values) dict.emplace(key, plain(value));
  for (const auto& [key, states] : state.nested) {
    StateDict::List list;
    for (const auto& inner : states) list.push_back(to_state_dict(inner));
    dict.emplace(key, std::move(list));
  }
  return dict;
}

SchedulerState scheduler_state_of(const StateDict& state) {
  SchedulerState schedule;
  for (const auto& [key, value] : state.dict()) {
    if (!is_nested(value)) {
      schedule.values.emplace(key, scheduler_value(key, value));
      continue;
    }
    for (const auto& inner : value.list())
      schedule.nested[key].push_back(scheduler_state_of(inner));
  }
  return schedule;
}

StateDict to_state_dict(const GradScalerState& state) {
  StateDict::Dict dict{{"scale", state.scale},
                       {"growth_factor", state.growth_factor},
                       {"backoff_factor", state.backoff_factor},
                       {"growth_interval", state.growth_interval},
                       {"_growth_tracker", state.growth_tracker}};
  if (state.hysteresis_left) dict.emplace("_hysteresis_tracker", *state.hysteresis_left);
  return dict;
}

GradScalerState grad_scaler_state_of(const StateDict& state) {
  const StateDict* hysteresis = state.find("_hysteresis_tracker");
  return {.scale = state.at("scale").to<double>(),
          .growth_factor = state.at("growth_factor").to<double>(),
          .backoff_factor = state.at("backoff_factor").to<double>(),
          .growth_interval = state.at("growth_interval").to<std::int64_t>(),
          .growth_tracker = state.at("_growth_tracker").to<std::int64_t>(),
          .hysteresis_left =
              hysteresis == nullptr ? std::nullopt : std::optional(hysteresis->to<std::int64_t>())};
}

StateDict to_state_dict(const LoaderState& state) {
  return {{"epoch", state.epoch},
          {"batches", state.batches},
          {"samples", state.samples},
          {"seed", std::bit_cast<std::int64_t>(state.seed)},
          {"total_batch_size", state.total_batch_size},
          {"dataset_length", state.dataset_length},
          {"num_processes", state.num_processes},
          {"offset", state.offset}};
}

LoaderState loader_state_of(const StateDict& state) {
  return {.epoch = count_at(state, "epoch"),
          .batches = count_at(state, "batches"),
          .samples = count_at(state, "samples"),
          .seed = std::bit_cast<std::uint64_t>(state.at("seed").to<std::int64_t>()),
          .total_batch_size = count_at(state, "total_batch_size"),
          .dataset_length = count_at(state, "dataset_length", -1),
          .num_processes = count_at(state, "num_processes", 1),
          .offset = state.find("offset") == nullptr ? 0 : count_at(state, "offset")};
}

std::int64_t count_of(const StateDict& value, const char* key) {
  const auto number = value.to<std::int64_t>();
  if (number >= 0 && number < std::numeric_limits<std::int64_t>::max()) return number;
  throw CheckpointError("'" + std::string(key) + "' of the accelerator is " +
                        std::to_string(number) + "; allowed is 0 to 2^63 - 2");
}

std::optional<std::int64_t> count_if_any(const StateDict* value, const char* key) {
  if (value == nullptr || value->is_null()) return std::nullopt;
  return count_of(*value, key);
}

}  // namespace accelerate
