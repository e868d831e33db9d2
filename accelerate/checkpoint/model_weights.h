// Loads weights by name into a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/named_shard.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {

/// How named tensors and a model differ.
struct WeightsReport {
  std::vector<std::string> missing;     ///< In the model, not among the tensors.
  std::vector<std::string> unexpected;  ///< Among the tensors, not in the model.
  std::vector<std::string> mismatched;  ///< "fc.weight: [10, 4] there, [10, 8] in the model".
  /// Parameters with whole numbers for floating-point ones and the like: "fc.weight: int8 there,
  /// float32 in the model". Buffers are converted, as Module::to(dtype) does.
  std::vector<std::string> mistyped;

  [[nodiscard]] bool fits() const {
    return missing.empty() && unexpected.empty() && mismatched.empty() && mistyped.empty();
  }
  /// Describes the differences for messages, long lists cut short: "missing: a, b; unexpected: c".
  [[nodiscard]] std::string describe() const;
};

/// Compares without changing anything. A tensor under one name of a tied parameter counts for all
/// its names.
[[nodiscard]] WeightsReport compare_weights(const ModuleView& model,
                                            const std::vector<NamedTensor>& weights);

struct LoadWeightsOptions {
  /// If true, any difference is a CheckpointError, and nothing is changed then. If false, what fits
  /// is loaded, and the report says what did not fit.
  bool strict = true;
};

/// Opens the weights at `checkpoint`: a file, an index or a folder (see map_weights), a folder of
/// shards of ours or of PyTorch's distributed checkpoints, or a folder that FSDP or DeepSpeed of
/// Python saved. Throws CheckpointError. Cost: headers are read.
[[nodiscard]] WeightReader weights_at(const std::filesystem::path& checkpoint,
                                      FileSystem& files = real_file_system());

/// Loads the weights at `checkpoint`, which is what weights_at() opens, into the model. The model keeps its devices and dtypes. A tensor without memory (init_empty_weights) gets memory on
/// the CPU, in the model's dtype. If the checkpoint lacks it, it stays without memory, and
/// materialise(model) gives it its initial values. Local: every rank reads. Throws CheckpointError.
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

/// Returns a reader of the tensors of a catalogue.
[[nodiscard]] WeightReader reader_of(const std::shared_ptr<const ShardedTensors>& stored);

/// Copies the tensors that fit by name, shape and kind of number into the model's tensors, to their
/// devices and dtypes. Tensors without memory get it on the CPU. Of a parameter that has a part in
/// `shards`, only the part is read and written. Returns how the two differ. Cost: one copy.
WeightsReport copy_weights(const ModuleView& model, const WeightReader& weights,
                           const std::vector<NamedShard>& shards = {});

/// Maps the parameters of `model` to their shards, under any of their names.
[[nodiscard]] std::map<const at::TensorImpl*, const NamedShard*> shards_by_leaf(
    const ModuleView& model, const std::vector<NamedShard>& shards);

}  // namespace accelerate
