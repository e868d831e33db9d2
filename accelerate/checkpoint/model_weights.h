// Weights by name into a model.
#pragma once

#include <string>
#include <vector>

#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// How named tensors and a model differ.
struct WeightsReport {
  std::vector<std::string> missing;     ///< In the model, not among the tensors.
  std::vector<std::string> unexpected;  ///< Among the tensors, not in the model.
  std::vector<std::string> mismatched;  ///< "fc.weight: [10, 4] there, [10, 8] in the model".

  [[nodiscard]] bool fits() const {
    return missing.empty() && unexpected.empty() && mismatched.empty();
  }
  /// "missing: a, b; unexpected: c": for messages, long lists cut short.
  [[nodiscard]] std::string describe() const;
};

/// Compares without changing anything. A tensor under any name of a tied parameter serves all.
[[nodiscard]] WeightsReport compare_weights(const ModuleView& model,
                                            const std::vector<NamedTensor>& weights);

/// Copies into the model's own tensors what fits by name and shape, to their devices and dtypes.
/// Returns how the two differ. Cost: one copy.
WeightsReport copy_weights(const ModuleView& model, const std::vector<NamedTensor>& weights);

}  // namespace accelerate
