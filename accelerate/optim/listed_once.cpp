#include "accelerate/optim/listed_once.h"

#include <c10/util/Type.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>

#include <typeinfo>
#include <unordered_map>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

std::vector<ListedTwice> find_listed_twice(const torch::optim::Optimizer& optimizer) {
  std::vector<ListedTwice> found;
  std::unordered_map<const void*, ListedTwice::Place> places;
  const auto& groups = optimizer.param_groups();
  const std::string name = c10::demangle(typeid(optimizer).name());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& parameters = groups[g].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto [place, is_new] =
          places.emplace(parameters[i].unsafeGetTensorImpl(), ListedTwice::Place{g, i});
      if (!is_new) found.push_back({name, parameters[i], place->second, {g, i}});
    }
  }
  return found;
}

std::string text_of(const ListedTwice::Place& place) {
  return "param_groups." + std::to_string(place.group) + '.' + std::to_string(place.index);
}

// LBFGS keeps directions over all parameters of its group, end to end.
void require_no_flat_state(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::LBFGS*>(&optimizer) == nullptr) return;
  if (optimizer.state().empty()) return;
  throw UsageError(
      "LBFGS lists a tied weight more than once and has already stepped, so its state repeats the "
      "weight too. Pass it to prepare() before its first step, or list each parameter once");
}

}  // namespace

std::string warning_of(const ListedTwice& tie, const std::vector<std::string>& names) {
  const std::string places = text_of(tie.first) + " and " + text_of(tie.dropped);
  std::string text = tie.optimizer + " lists one tensor more than once: ";
  text += names.size() < 2 ? places : "'" + join(names, "' and '") + "'";
  text +=
      ". It is stepped once, as in Python, where parameters() names a tied weight once. LibTorch's "
      "parameters() lists it once per name, and the optimizer would otherwise step it once per "
      "name";
  if (tie.first.group == tie.dropped.group) return text + '.';
  return text + ". The options of parameter group " + std::to_string(tie.first.group) +
         " hold for it, not those of group " + std::to_string(tie.dropped.group) + '.';
}

std::vector<ListedTwice> list_once(torch::optim::Optimizer& optimizer) {
  auto found = find_listed_twice(optimizer);
  if (found.empty()) return found;
  require_no_flat_state(optimizer);
  for (auto dropped = found.rbegin(); dropped != found.rend(); ++dropped) {
    auto& parameters = optimizer.param_groups()[dropped->dropped.group].params();
    parameters.erase(parameters.begin() + static_cast<std::ptrdiff_t>(dropped->dropped.index));
  }
  return found;
}

}  // namespace accelerate::detail
