#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/second_group.h"
#include "accelerate/parallel/replicated/sync_batch_norm.h"

namespace accelerate {
namespace {

using torch::nn::AnyModule;
using torch::nn::Module;
using torch::nn::SequentialImpl;

template <typename BatchNorm>
SyncBatchNorm converted_from(Module& module) {
  auto* norm = dynamic_cast<BatchNorm*>(&module);
  return norm != nullptr ? SyncBatchNorm(std::make_shared<SyncBatchNormImpl>(*norm))
                         : SyncBatchNorm(nullptr);
}

// Returns the SyncBatchNorm for `module`; empty when `module` is not a batch norm.
SyncBatchNorm converted(Module& module) {
  if (auto norm = converted_from<torch::nn::BatchNorm1dImpl>(module)) return norm;
  if (auto norm = converted_from<torch::nn::BatchNorm2dImpl>(module)) return norm;
  return converted_from<torch::nn::BatchNorm3dImpl>(module);
}

// A place in a Sequential.
struct Place {
  SequentialImpl* sequential;
  std::size_t index;
};

struct Found {
  std::vector<Place> places;
  std::vector<std::string> typed;  // members that keep their type
};

void search(Module& module, const std::string& path, Found& found) {
  auto* sequential = dynamic_cast<SequentialImpl*>(&module);
  std::size_t index = 0;
  for (const auto& child : module.named_children()) {
    const auto name = path.empty() ? child.key() : path + "." + child.key();
    if (!converted(*child.value())) {
      search(*child.value(), name, found);
    } else if (sequential != nullptr) {
      found.places.push_back({sequential, index});
    } else {
      found.typed.push_back(name);
    }
    ++index;
  }
}

void replace(const Place& place) {
  auto& held = *(place.sequential->begin() + static_cast<std::ptrdiff_t>(place.index));
  const auto norm = converted(*held.ptr());
  const auto name = place.sequential->named_children()[place.index].key();
  held = AnyModule(norm.ptr());
  place.sequential->replace_module(name, norm.ptr());
}

void visit_batch_norms(Module& module, const std::function<void(SyncBatchNormImpl&)>& fn) {
  if (auto* norm = dynamic_cast<SyncBatchNormImpl*>(&module)) fn(*norm);
  for (const auto& child : module.children()) visit_batch_norms(*child, fn);
}

}  // namespace

std::size_t convert_sync_batchnorm(Module& module) {
  Found found;
  if (converted(module)) found.typed.push_back("the module itself");
  search(module, "", found);
  if (!found.typed.empty()) {
    std::string names;
    for (const auto& name : found.typed) names += (names.empty() ? "" : ", ") + name;
    throw UsageError(
        "convert_sync_batchnorm cannot change the type of a member, and these are "
        "members of type BatchNorm: " +
        names +
        ". Declare them as accelerate::SyncBatchNorm, or keep them in a "
        "torch::nn::Sequential. Nothing was converted.");
  }
  for (const auto& place : found.places) replace(place);
  return found.places.size();
}

namespace detail {

std::size_t join_batch_norms(Module& module, const std::shared_ptr<Communicator>& communicator) {
  std::size_t count = 0;
  visit_batch_norms(module, [&count](SyncBatchNormImpl&) { ++count; });
  if (count == 0) return 0;
  const auto second = std::make_shared<SecondGroup>();
  (void)second->beside(*communicator);
  const auto group = [second, weak = std::weak_ptr(communicator)] {
    const auto first = weak.lock();
    return first ? second->beside(*first) : second->last();
  };
  visit_batch_norms(module, [&group](SyncBatchNormImpl& norm) { norm.set_group(group); });
  return count;
}

}  // namespace detail
}  // namespace accelerate
