// Finds, checks and maps the weights of a model, without a copy. They lie in one or several files
// of safetensors or torch.save.
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
  SafetensorsMetadata metadata;       ///< Of safetensors files; of equal keys the first file's.
};

struct MapWeightsOptions {
  /// For files of torch.save: which key of a dict holds the state dict, such as "state_dict" or
  /// "model".
  std::string key = {};
};

/// Maps the weights at `path`, which is one of:
/// - a file of safetensors (.safetensors) or of torch.save (.bin, .pt, .pth, .ckpt). A file of
///   torch.save, from Python or LibTorch, holds a state dict, a module or a TorchScript module,
/// - an index (.index.json) of either kind,
/// - a folder. The first of these that it holds is taken: model.safetensors, its index,
///   pytorch_model.bin, its index.
/// Trusts nothing and executes nothing. Throws CheckpointError. Cost: headers are read, data is
/// not.
[[nodiscard]] MappedWeights map_weight_files(const std::filesystem::path& path,
                                             const MapWeightsOptions& options = {},
                                             FileSystem& files = real_file_system());

/// A weight that is another weight under a second name.
struct TiedWeight {
  std::string name, kept_as;
};

/// Removes weights that are the same elements of the same memory as an earlier weight, such as tied
/// weights in files of torch.save. Returns the removed ones, in their order.
std::vector<TiedWeight> remove_ties(std::vector<MappedWeight>& weights);

/// Returns the weights as sources for write_weights(). The sources keep the files mapped.
[[nodiscard]] std::vector<WeightSource> weight_sources(const std::vector<MappedWeight>& weights);

}  // namespace accelerate
