#include "accelerate/tensor/inputs.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

auto named(std::string_view name) {
  return [name](const auto& entry) { return entry.first == name; };
}

}  // namespace

const at::Tensor& Inputs::operator[](std::string_view name) const {
  const auto found = std::ranges::find_if(tensors_, named(name));
  if (found != tensors_.end()) return found->second;
  throw UsageError("there is no '" + std::string(name) + "' in these inputs; there are: " +
                   (tensors_.empty() ? "none" : join(keys(), ", ")) + "." +
                   did_you_mean(name, keys()));
}

at::Tensor Inputs::get(std::string_view name) const {
  const auto found = std::ranges::find_if(tensors_, named(name));
  return found == tensors_.end() ? at::Tensor() : found->second;
}

bool Inputs::contains(std::string_view name) const {
  return std::ranges::any_of(tensors_, named(name));
}

void Inputs::set(std::string_view name, at::Tensor tensor) {
  const auto found = std::ranges::find_if(tensors_, named(name));
  if (found != tensors_.end()) {
    found->second = std::move(tensor);
  } else {
    tensors_.emplace_back(std::string(name), std::move(tensor));
  }
}

bool Inputs::erase(std::string_view name) {
  return std::erase_if(tensors_, named(name)) > 0;
}

std::vector<std::string> Inputs::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

}  // namespace accelerate
