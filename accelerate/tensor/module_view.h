// What the library needs to know of a model, whatever kind it is: a torch::nn::Module (held or on
// the stack) or a TorchScript module. Names are those of Python's state_dict: "layer1.0.weight".
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

namespace torch {
namespace nn {
class Module;
}
namespace jit {
struct Module;
}
}  // namespace torch

namespace accelerate {

class DivisibleModule;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// A module of a model, under one of its names.
struct NamedModule {
  std::string name;        ///< "" for the root, else as in "encoder.layer.0".
  std::string class_name;  ///< Module::name() ("my::BlockImpl"), or TorchScript's qualified name.
  const void* identity = nullptr;  ///< Equal for a module that was registered more than once.
};

/// Handles to a module's tensors, in registration order; the module must outlive the functions.
struct ModuleView {
  std::vector<NamedTensor> parameters;  ///< Duplicates of a tied parameter included.
  std::vector<NamedTensor> buffers;
  std::vector<NamedModule> modules;      ///< The root, then depth first in registration order.
  std::string class_name;                ///< "NetImpl", as typeid spells it.
  DivisibleModule* divisible = nullptr;  ///< The root, if it is one.
  std::function<void(c10::Device)> to;   ///< Moves all tensors; handles stay valid for parameters.
};

/// Works for modules on the stack too. Cost: one walk over the sub-modules.
[[nodiscard]] ModuleView view_of(torch::nn::Module& module);
[[nodiscard]] ModuleView view_of(torch::jit::Module& module);

/// Parameters then buffers by name, tied parameters under each of their names. Handles, no copies.
[[nodiscard]] std::vector<NamedTensor> state_dict(const ModuleView& view);

/// `tensors` with each tensor once, under its first name.
[[nodiscard]] std::vector<NamedTensor> without_duplicates(const std::vector<NamedTensor>& tensors);

}  // namespace accelerate
