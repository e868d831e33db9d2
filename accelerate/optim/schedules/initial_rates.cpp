#include "accelerate/optim/schedules/initial_rates.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Type.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <typeinfo>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Entry {
  std::shared_ptr<InitialRates> rates;
  // The first parameter of each group, to recognise the optimizer.
  std::vector<WeakTensor> parameters;
};

struct Registry {
  std::mutex mutex;
  std::map<const torch::optim::Optimizer*, Entry> entries;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

WeakTensor first_parameter(const torch::optim::OptimizerParamGroup& group) {
  return WeakTensor(group.params().empty() ? at::Tensor().getIntrusivePtr()
                                           : group.params().front().getIntrusivePtr());
}

bool gone(const Entry& entry) {
  return std::all_of(entry.parameters.begin(), entry.parameters.end(),
                     [](const WeakTensor& parameter) { return parameter.expired(); });
}

// Whether `entry` was made for this optimizer and the rates that its schedules set are unchanged.
bool describes(const Entry& entry, const torch::optim::Optimizer& optimizer,
               const std::vector<double>& rates) {
  const auto& groups = optimizer.param_groups();
  if (entry.parameters.size() > groups.size()) return false;
  for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
    const WeakTensor first = first_parameter(groups[i]);
    if (first._unsafe_get_target() != entry.parameters[i]._unsafe_get_target()) return false;
  }
  const auto& written = entry.rates->last_set;
  return std::equal(written.begin(), written.end(), rates.begin());
}

// Calls get_lr or set_lr of the options. LibTorch's base class implements them only by throwing.
template <typename Call>
auto with_rate(const torch::optim::OptimizerOptions& options, Call call) {
  try {
    return call();
  } catch (const c10::Error&) {
    throw_with_context<UsageError>(
        "the optimizer's options " + c10::demangle(typeid(options).name()) +
        " give no access to the learning rate, which a schedule is to set: override get_lr() and "
        "set_lr() of torch::optim::OptimizerOptions in them");
  }
}

}  // namespace

std::vector<double> group_rates(torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) {
    rates.push_back(with_rate(group.options(), [&] { return group.options().get_lr(); }));
  }
  return rates;
}

void set_group_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  auto& groups = optimizer.param_groups();
  if (groups.size() != rates.size()) {
    throw UsageError("the optimizer has " + std::to_string(groups.size()) +
                     " parameter groups and its schedule was made for " +
                     std::to_string(rates.size()) + ": add all groups before the schedule is made");
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& options = groups[i].options();
    with_rate(options, [&] { options.set_lr(rates[i]); });
  }
}

double default_rate(torch::optim::Optimizer& optimizer) {
  return with_rate(optimizer.defaults(), [&] { return optimizer.defaults().get_lr(); });
}

std::shared_ptr<InitialRates> initial_rates_of(torch::optim::Optimizer& optimizer) {
  const std::vector<double> rates = group_rates(optimizer);
  const std::lock_guard lock(registry().mutex);
  auto& entries = registry().entries;
  std::erase_if(entries, [](const auto& one) { return gone(one.second); });
  Entry& entry = entries[&optimizer];
  if (entry.rates == nullptr || !describes(entry, optimizer, rates)) {
    entry = {std::make_shared<InitialRates>(), {}};
  }
  const auto& groups = optimizer.param_groups();
  for (std::size_t i = entry.parameters.size(); i < groups.size(); ++i) {
    entry.parameters.push_back(first_parameter(groups[i]));
    entry.rates->initial.push_back(rates[i]);
  }
  entry.rates->last_set = rates;
  return entry.rates;
}

}  // namespace accelerate::detail
