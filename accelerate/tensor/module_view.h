// What the library needs to know about a model of any kind: a torch::nn::Module (held or on the
// stack) or a TorchScript module. Names are those of Python's state_dict: "layer1.0.weight".
#pragma once

#include <c10/core/Device.h>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/tensor/named_tensor.h"

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

/// A module of a model, under one of its names.
struct NamedModule {
  std::string name;        ///< "" for the root, else e.g. "encoder.layer.0".
  std::string class_name;  ///< Module::name() ("my::BlockImpl"), or TorchScript's qualified name.
  const void* identity = nullptr;  ///< Equal for a module that was registered more than once.
};

/// Handles to a module's tensors, in registration order. The module must outlive the functions.
struct ModuleView {
  std::vector<NamedTensor> parameters;  ///< Includes duplicates of tied parameters.
  std::vector<NamedTensor> buffers;
  std::vector<NamedModule> modules;      ///< The root, then depth first in registration order.
  std::string class_name;                ///< "NetImpl", as typeid spells it.
  DivisibleModule* divisible = nullptr;  ///< The root, if it is a DivisibleModule; else null.
  std::function<void(c10::Device)> to;   ///< Moves all tensors. Handles of parameters stay valid.
};

/// Returns the view of a module, also of one on the stack. Cost: one walk over the sub-modules.
[[nodiscard]] ModuleView view_of(torch::nn::Module& module);
[[nodiscard]] ModuleView view_of(torch::jit::Module& module);

/// Returns parameters, then buffers. Tied parameters appear under each of their names. Handles, no
/// copies.
[[nodiscard]] std::vector<NamedTensor> state_dict(const ModuleView& view);

/// Returns `tensors` with each tensor once, under its first name.
[[nodiscard]] std::vector<NamedTensor> without_duplicates(const std::vector<NamedTensor>& tensors);

namespace detail {

/// Returns the tensors of `named`, each once.
[[nodiscard]] std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named);

/// Throws UsageError, with the cure, when a parameter or buffer of `model` is on the meta device:
/// "the model Net cannot be <done>: fc.weight has no memory …". Local; nanoseconds a tensor.
void require_memory(const ModuleView& model, const std::string& done);

}  // namespace detail
}  // namespace accelerate

namespace accelerate::detail {

// Finds buffers that Transformers does not save. Python marks them when it registers them
// (persistent=False). A trace loses the mark, so they are recognised by their names and values.

/// Whether `buffer` is such a buffer of a TorchScript module. Its shape is {1, n} and its dtype
/// int64. It is named position_ids and holds 0, 1, …, n - 1, or it is named token_type_ids and
/// holds zeros. Transformers makes both from the configuration, and calls them unexpected in a
/// file. A buffer with other values is the user's. Cost: one pass over a buffer of that name.
[[nodiscard]] bool is_unsaved_buffer(const ModuleView& model, const NamedTensor& buffer);

/// Returns `model` without such buffers.
[[nodiscard]] ModuleView without_unsaved_buffers(ModuleView model);

}  // namespace accelerate::detail
