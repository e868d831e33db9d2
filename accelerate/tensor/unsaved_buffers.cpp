#include "accelerate/tensor/unsaved_buffers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>

#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::detail {
namespace {

// TorchScript's prefix for the names of classes that it compiled from Python.
constexpr std::string_view kFromPython = "__torch__.";

bool is_row_of_numbers(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_meta() && tensor.scalar_type() == at::kLong &&
         tensor.dim() == 2 && tensor.size(0) == 1;
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);  // npos + 1 is 0
}

}  // namespace

bool is_unsaved_buffer(const ModuleView& model, const NamedTensor& buffer) {
  const auto& [name, tensor] = buffer;
  if (!model.class_name.starts_with(kFromPython) || !is_row_of_numbers(tensor)) return false;
  if (last_part(name) == "token_type_ids") return !tensor.any().item<bool>();
  if (last_part(name) != "position_ids") return false;
  return tensor[0].equal(at::arange(tensor.size(1), tensor.options()));
}

ModuleView without_unsaved_buffers(ModuleView model) {
  auto buffers = std::move(model.buffers);
  std::erase_if(buffers, [&](const auto& buffer) { return is_unsaved_buffer(model, buffer); });
  model.buffers = std::move(buffers);
  return model;
}

}  // namespace accelerate::detail
