// Weights by name into a model.
#pragma once

#include <filesystem>
#include <functional>
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

struct LoadWeightsOptions {
  /// Any difference is a CheckpointError, and then nothing was changed. Else what fits is loaded,
  /// and the report says what did not.
  bool strict = true;
};

/// Loads the weights at `checkpoint` (a file, an index or a folder, see map_weights; or a folder of
/// shards of ours or of PyTorch's distributed checkpoints) into the model
/// where it is: its devices and dtypes stay. A tensor without memory (init_empty_weights) gets it,
/// on the CPU, in the dtype of the model; one that the checkpoint lacks keeps having none, and
/// materialise(model) gives it its own values. Local: every rank reads. Throws CheckpointError.
/// Cost: one copy, from the mapped files into the model, tensor by tensor.
WeightsReport load_checkpoint_in_model(const ModuleView& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options = {});
WeightsReport load_checkpoint_in_model(torch::nn::Module& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options = {});
WeightsReport load_checkpoint_in_model(torch::jit::Module& model,
                                       const std::filesystem::path& checkpoint,
                                       const LoadWeightsOptions& options = {});

/// Copies into the model's own tensors what fits by name and shape, to their devices and dtypes;
/// to the CPU for tensors that have no memory yet.
/// Returns how the two differ. Cost: one copy.
WeightsReport copy_weights(const ModuleView& model, const std::vector<NamedTensor>& weights);

/// As copy_weights, for weights that are read one by one: `outlines` have their names and shapes,
/// and `read` gives a tensor by its name when its turn comes.
WeightsReport copy_weights(const ModuleView& model, const std::vector<NamedTensor>& outlines,
                           const std::function<at::Tensor(const std::string& name)>& read);

}  // namespace accelerate
