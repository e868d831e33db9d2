// Weights by name into a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/weight_files.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/named_shard.h"

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

/// Of tensors that are there whole.
[[nodiscard]] WeightReader reader_of(std::vector<NamedTensor> weights);
/// Of a catalogue.
[[nodiscard]] WeightReader reader_of(const std::shared_ptr<const ShardedTensors>& stored);

/// As copy_weights. Of parameters that `shards` have parts of, the parts are read and written, and
/// nothing else.
WeightsReport copy_weights(const ModuleView& model, const WeightReader& weights,
                           const std::vector<NamedShard>& shards = {});

/// Which of `shards` is of which leaf of `model`, under whichever of its names.
[[nodiscard]] std::map<const at::TensorImpl*, const NamedShard*> shards_by_leaf(
    const ModuleView& model, const std::vector<NamedShard>& shards);

}  // namespace accelerate
