#include "accelerate/accelerator/accelerator_impl.h"

#include <set>
#include <string>
#include <utility>

#include "accelerate/base/logger.h"

namespace accelerate::detail {
namespace {

std::vector<std::string> names_of(const at::Tensor& parameter, const ModuleView& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.parameters) {
    if (tensor.is_same(parameter)) names.push_back(name);
  }
  return names;
}

void warn(const ListedTwice& tie, const std::vector<std::string>& names) {
  get_logger("accelerate.accelerator").warning(warning_of(tie, names));
}

}  // namespace

void TiedParameters::list_once_in(torch::optim::Optimizer& optimizer) {
  for (auto& tie : list_once(optimizer)) unnamed_.push_back(std::move(tie));
}

void TiedParameters::name_by(const ModuleView& model) {
  if (unnamed_.empty()) return;
  std::set<const void*> named;  // A weight with three names is listed twice.
  std::erase_if(unnamed_, [&](const ListedTwice& tie) {
    const auto names = names_of(tie.parameter, model);
    if (names.empty()) return false;
    if (named.insert(tie.parameter.unsafeGetTensorImpl()).second) warn(tie, names);
    return true;
  });
}

void TiedParameters::warn_of_rest() {
  for (const auto& tie : std::exchange(unnamed_, {})) warn(tie, {});
}

}  // namespace accelerate::detail
