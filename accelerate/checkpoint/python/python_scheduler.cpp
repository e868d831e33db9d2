#include "accelerate/checkpoint/python/python_objects.h"

#include <algorithm>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/tensor/stored_values.h"

namespace accelerate {
namespace {

using Content = std::shared_ptr<const FileContent>;

// Whether the entry is left out: functions, of which Python saves only attributes, and values that
// follow from other entries.
bool is_pythons_own(const std::string& key) {
  return key == "lr_lambdas" || key == "_schedule_phases" || key == "_scale_fn_custom" ||
         key == "_scale_fn_ref";
}

bool is_dict(const TorchValue& value) {
  return value.as<TorchDict>() != nullptr;
}

// Lists the elements of a collections.Counter, which maps each element to its count.
StateDict elements_of(const TorchValue& counter, const std::string& key) {
  constexpr std::int64_t kMost = 1'000'000;
  std::vector<std::int64_t> elements;
  for (const auto& [element, count] : counter.as<TorchDict>()->entries) {
    const auto* number = element.as<std::int64_t>();
    const auto* times = count.as<std::int64_t>();
    if (number == nullptr || times == nullptr || *times < 0 ||
        *times > kMost - static_cast<std::int64_t>(elements.size()))
      throw CheckpointError("'" + key + "' of a schedule is not a list of steps");
    elements.insert(elements.end(), static_cast<std::size_t>(*times), *number);
  }
  std::ranges::sort(elements);
  return StateDict(elements);
}

StateDict value_of(const TorchValue& value, const Content& content, const std::string& key) {
  if (key == "milestones" && is_dict(value)) return elements_of(value, key);
  if (is_dict(value)) return StateDict::List{scheduler_state_of_python(value, content)};
  if (!value.items().empty() && std::ranges::all_of(value.items(), is_dict)) {
    StateDict::List inner;
    for (const auto& item : value.items())
      inner.push_back(scheduler_state_of_python(item, content));
    return inner;
  }
  StateDict plain = state_of(value, content, key);
  // A rate may be a tensor of one element.
  if (plain.holds<at::Tensor>() && plain.to<at::Tensor>().numel() == 1)
    return plain.to<at::Tensor>().item<double>();
  return plain;
}

}  // namespace

StateDict scheduler_state_of_python(const TorchValue& saved, const Content& content) {
  const auto* dict = saved.as<TorchDict>();
  if (dict == nullptr)
    throw CheckpointError("the state of a schedule is " + saved.describe() + ", not a dict");
  StateDict::Dict state;
  for (const auto& [key, value] : dict->entries) {
    const auto* name = key.as<std::string>();
    if (name == nullptr)
      throw CheckpointError("the state of a schedule has the key " + key.describe());
    if (is_pythons_own(*name) || value.as<TorchNone>() != nullptr) continue;
    state.insert_or_assign(*name, value_of(value, content, *name));
  }
  return state;
}

}  // namespace accelerate
