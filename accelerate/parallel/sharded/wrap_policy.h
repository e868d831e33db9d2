// How a model is cut into units: parameters that are gathered, freed and reduced together.
//
// A policy chooses modules. A parameter belongs to the unit of the deepest chosen module around it;
// parameters outside of all chosen modules are in the root unit. The choices are those of PyTorch's
// FSDP, version 1 or 2, so that one configuration means the same units in both.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

struct UnitPlan {
  std::string name{};  ///< First name of its module; "" for the root.
  /// Ascending indices into without_duplicates(view.parameters).
  std::vector<std::size_t> parameters{};
  /// Whether the unit keeps the model's element types under a mixed precision policy. Batch norms
  /// do: a lower precision would spoil their statistics, and their operator takes no parameters of
  /// another type.
  bool full_precision = false;
};

/// Returns the units of a model: the root's first, then in the order in which modules were
/// registered; none is empty. Every parameter is in exactly one unit, except the parameters below
/// `settings.ignored_modules`, which are in none.
///
/// * TRANSFORMER_BASED_WRAP chooses every module whose class is named by the settings, or by the
///   model (DivisibleModule) where the settings name none. Chosen modules may lie inside each
///   other. Where neither names a class it chooses none, and warns.
/// * SIZE_BASED_WRAP with `min_num_params` above 0. Version 1 goes down as long as a module has at
///   least that many parameters, and chooses it when that many are in no unit yet. It never chooses
///   a ModuleList or ModuleDict, and skips MultiheadAttention unless batch norms are looked for.
///   Version 2 chooses every module with more parameters.
/// * NO_WRAP chooses none.
/// * A mixed precision policy chooses every batch norm as well (PyTorch: in version 1, with one of
///   the first two).
/// * Version 2 chooses the model's first Embedding, unless it is in a unit or tied to a weight
///   elsewhere.
///
/// A parameter with several names belongs to the deepest chosen module that holds all of them. A
/// module that was registered more than once is one module. Every rank must have the same model.
/// Throws ConfigError for a class that the model does not have. Warns of an expression of `ignored_modules` that matches nothing. Cost: names ×
/// depth. Source: `_auto_wrap` of PyTorch 2.13, and `fsdp2_prepare_model` of Accelerate 1.15, whose
/// tail unit is the root here: neither is freed after forward.
[[nodiscard]] std::vector<UnitPlan> plan_units(const ModuleView& view,
                                               const ResolvedFsdpOptions& settings);

/// Returns the buffers that a policy's buffer_dtype is for, each once: floating buffers, except
/// those of batch norms and of modules below `settings.ignored_modules`.
[[nodiscard]] std::vector<at::Tensor> buffers_to_cast(const ModuleView& view,
                                                      const ResolvedFsdpOptions& settings);

}  // namespace accelerate::detail
