#include "accelerate/tensor/module_view.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <c10/util/Type.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/tensor/divisible_module.h"

namespace accelerate {
namespace {

// Used instead of Module::named_modules(), which needs shared ownership. A module on the stack is
// not shared; its children are.
void collect(torch::nn::Module& module, const std::string& name, ModuleView& view) {
  view.modules.push_back({name, module.name(), &module});
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    if (item.value().defined()) view.parameters.push_back({prefix + item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    if (item.value().defined()) view.buffers.push_back({prefix + item.key(), item.value()});
  }
  for (const auto& child : module.named_children()) {
    collect(*child.value(), prefix + child.key(), view);
  }
}

std::string class_name_of(const torch::jit::Module& module) {
  return module.type()->name() ? module.type()->name()->qualifiedName() : "ScriptModule";
}

void collect_modules(const torch::jit::Module& module, const std::string& name, ModuleView& view) {
  view.modules.push_back({name, class_name_of(module), module._ivalue().get()});
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const auto& child : module.named_children()) {
    collect_modules(child.value, prefix + child.name, view);
  }
}

void move_module(torch::nn::Module& module, c10::Device device) {
  if (!device.is_meta()) detail::require_memory(view_of(module), "moved to " + device.str());
  module.to(device);
}

}  // namespace

ModuleView view_of(torch::nn::Module& module) {
  ModuleView view;
  collect(module, "", view);
  view.class_name = c10::demangle(typeid(module).name());
  view.divisible = dynamic_cast<DivisibleModule*>(&module);
  view.to = [&module](c10::Device device) { move_module(module, device); };
  return view;
}

ModuleView view_of(torch::jit::Module& module) {
  ModuleView view;
  for (const auto& item : module.named_parameters())
    view.parameters.push_back({item.name, item.value});
  for (const auto& item : module.named_buffers()) view.buffers.push_back({item.name, item.value});
  collect_modules(module, "", view);
  view.class_name = class_name_of(module);
  view.to = [&module](c10::Device device) { module.to(device); };
  return view;
}

std::vector<NamedTensor> state_dict(const ModuleView& view) {
  std::vector<NamedTensor> all = view.parameters;
  all.insert(all.end(), view.buffers.begin(), view.buffers.end());
  return all;
}

std::vector<NamedTensor> without_duplicates(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> once;
  std::unordered_set<const void*> seen;
  for (const auto& item : tensors) {
    if (seen.insert(item.tensor.unsafeGetTensorImpl()).second) once.push_back(item);
  }
  return once;
}

std::vector<at::Tensor> detail::tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& item : without_duplicates(named)) tensors.push_back(item.tensor);
  return tensors;
}

void detail::require_memory(const ModuleView& model, const std::string& done) {
  for (const auto& [name, tensor] : state_dict(model)) {
    if (tensor.is_meta())
      throw UsageError("the model " + model.class_name + " cannot be " + done + ": " + name +
                       " has no memory, as of a model made while init_empty_weights is alive. "
                       "Call materialise(model) or load_checkpoint_in_model(model, checkpoint) "
                       "first.");
  }
}

}  // namespace accelerate

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
