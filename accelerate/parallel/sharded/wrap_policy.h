// How a model is cut into units: parameters that are gathered, freed and reduced together.
//
// A policy chooses modules, and a parameter belongs to the unit of the deepest chosen module around
// it; what no chosen module holds is the root unit. The choices are those of PyTorch's FSDP,
// version 1 or 2, so that one configuration means the same units in both.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/config/fsdp_plugin.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

struct UnitPlan {
  std::string name{};  ///< Of its module, the first where it has several; "" root.
  std::vector<std::size_t> parameters{};  ///< Into without_duplicates(view.parameters), ascending.
  /// Keeps the model's element types under a mixed precision policy: batch norms, whose statistics
  /// a lower precision would spoil, and whose operator takes no parameters of another type.
  bool full_precision = false;
};

/// The units of a model: the root's first, then in the order in which modules were registered; none
/// is empty. Every parameter is in exactly one, but for those below `settings.ignored_modules`,
/// which are in none.
///
/// * TRANSFORMER_BASED_WRAP chooses every module whose class is named, by the settings or, where
///   they name none, by the model (DivisibleModule); also inside one another.
/// * SIZE_BASED_WRAP with `min_num_params` above 0: version 1 goes down as long as a module has so
///   many parameters that no unit has yet, and leaves ModuleList, ModuleDict and the insides of
///   MultiheadAttention alone; version 2 chooses every module with more.
/// * NO_WRAP chooses none.
/// * With a mixed precision policy: every batch norm as well (PyTorch: in version 1, with one of
///   the first two).
/// * Version 2: the model's first Embedding, unless it is in a unit or tied to a weight elsewhere.
///
/// A parameter with several names belongs to the deepest chosen module that holds all of them; a
/// module that was registered more than once is one module. Every rank must have the same model.
/// Throws ConfigError for a class that the model does not have, or when nobody names any. Warns of
/// an expression of `ignored_modules` that matches nothing. Cost: names × depth. Source:
/// `_auto_wrap` of PyTorch 2.13, `fsdp2_prepare_model` of Accelerate 1.15, whose tail unit is our
/// root: neither is freed after forward.
[[nodiscard]] std::vector<UnitPlan> plan_units(const ModuleView& view,
                                               const FsdpSettings& settings);

/// The buffers that a policy's buffer_dtype is for: floating ones, but those of batch norms and of
/// what is below `settings.ignored_modules`. Each once.
[[nodiscard]] std::vector<at::Tensor> buffers_to_cast(const ModuleView& view,
                                                      const FsdpSettings& settings);

/// The name by which a configuration calls a class: without namespaces, template arguments and a
/// trailing "Impl". "my::BlockImpl" → "Block"; TorchScript's
/// "__torch__.nets.___torch_mangle_3.Block" → "Block".
[[nodiscard]] std::string class_word(std::string_view class_name);

}  // namespace accelerate::detail
