// The weights of a model as they lie on disk, of safetensors or torch.save, in one file or several:
// found, checked and mapped, without a copy.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"
#include "accelerate/formats/weights/weight_writer.h"

namespace accelerate {

/// A tensor in a mapped file.
struct MappedWeight {
  std::string name;
  TorchTensor tensor;  ///< Its bytes are valid while `content` is held.
  std::shared_ptr<const FileContent> content;
};

struct MappedWeights {
  std::vector<MappedWeight> weights;  ///< In the order of the files.
  SafetensorsMetadata metadata;  ///< Of safetensors files; of several the first's entry counts.
};

struct MapWeightsOptions {
  /// In files of torch.save: the state dict below this key of a dict, "state_dict", "model".
  std::string key = {};
};

/// The weights at `path`, which is
/// - a file of safetensors (.safetensors) or of torch.save (.bin, .pt, .pth, .ckpt), the latter of
///   Python or LibTorch, of a state dict, a module, or a TorchScript module,
/// - an index (.index.json) of either,
/// - or a folder with model.safetensors, its index, pytorch_model.bin or its index: the first of
///   these that is there.
/// Trusts nothing and executes nothing. Throws CheckpointError. Cost: headers are read, data is
/// not.
[[nodiscard]] MappedWeights map_weight_files(const std::filesystem::path& path,
                                             const MapWeightsOptions& options = {},
                                             FileSystem& files = real_file_system());

/// A weight that is another under a second name.
struct TiedWeight {
  std::string name, kept_as;
};

/// Leaves of weights that are the same elements of the same memory, as tied ones in files of
/// torch.save, only the first. Returns the others, in their order.
std::vector<TiedWeight> remove_ties(std::vector<MappedWeight>& weights);

/// The weights as sources for write_weights, which keep the files mapped.
[[nodiscard]] std::vector<WeightSource> weight_sources(const std::vector<MappedWeight>& weights);

}  // namespace accelerate
