// Reads a checkpoint of DeepSpeed: of ZeRO 0 to 3, or universal. docs/formats/deepspeed.md has what
// its files hold.
//
//   const auto saved = DeepSpeedCheckpoint::open("checkpoint-500");
//   for (const ShardedTensor& tensor : saved.weights().tensors()) …
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/shards/deepspeed_files.h"
#include "accelerate/formats/shards/deepspeed_layout.h"
#include "accelerate/formats/shards/deepspeed_values.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/torch_archive/torch_archive.h"

namespace accelerate {

struct DeepSpeedOptions {
  /// Which tag; "" takes the one that the file `latest` names.
  std::string tag = {};
  /// Leaves out parameters that were not trained.
  bool exclude_frozen_parameters = false;
};

/// What an optimizer has for its parameters.
struct DeepSpeedOptimizer {
  struct Group {
    const TorchValue* options = nullptr;  ///< The dict of the parameter group.
    std::vector<std::string> parameters;  ///< Their names.
  };
  struct Numbers {
    std::map<std::string, const TorchValue*>
        by_entry;  ///< "step"; valid as long as the checkpoint.
  };

  std::vector<Group> groups;
  /// The tensors of the state, as "state.<parameter>.<entry>".
  ShardCatalogue tensors;
  /// The entries of each parameter's state that are single numbers.
  std::map<std::string, Numbers> numbers;
};

class DeepSpeedCheckpoint {
 public:
  /// Maps the files of one tag and compares them. The folder is one that find_deepspeed_files()
  /// takes. Trusts nothing and executes nothing. Throws CheckpointError, with file and key, for
  /// missing ranks, files of several saves, damaged or hostile files, and sizes that do not add up.
  /// Cost: headers and pickles are read, tensors are not.
  [[nodiscard]] static DeepSpeedCheckpoint open(const std::filesystem::path& folder,
                                                const DeepSpeedOptions& options = {},
                                                FileSystem& files = real_file_system());

  [[nodiscard]] const DeepSpeedFiles& files() const { return files_; }
  /// The stage of ZeRO.
  [[nodiscard]] int stage() const { return stage_; }
  /// The weights by their names in state_dict(): fp32 masters of trained parameters, frozen
  /// parameters as they were saved, buffers in fp32 or whole numbers. A tied parameter has all its
  /// names. Under ZeRO 0 everything is as it was saved: masters have no names in its files.
  [[nodiscard]] const ShardCatalogue& weights() const { return weights_; }
  /// The first file of the model: what all ranks have in common.
  [[nodiscard]] detail::DeepSpeedValue model() const { return detail::root_of(models_.front()); }
  /// The first file of the optimizer; of a universal checkpoint zero/optimizer_state.pt. Under
  /// ZeRO 0 the optimizer's state in the file of the model. Throws CheckpointError if there is none.
  [[nodiscard]] detail::DeepSpeedValue optimizer_state() const;

  /// Returns the state of the optimizer by parameter. Throws CheckpointError, also under ZeRO 0,
  /// where parameters have no names.
  [[nodiscard]] DeepSpeedOptimizer optimizer() const;

 private:
  friend class DeepSpeedWeights;

  void open_universal(FileSystem& files);
  [[nodiscard]] detail::DeepSpeedLayout layout() const;
  [[nodiscard]] bool is_parameter(const std::string& name) const;
  [[nodiscard]] FoundPart universal_part(const std::string& name, const TorchArchive& archive,
                                         std::size_t file) const;
  void add_flat_state(DeepSpeedOptimizer& optimizer) const;
  void add_universal_state(DeepSpeedOptimizer& optimizer) const;

  DeepSpeedFiles files_;
  int stage_ = 0;
  std::vector<TorchArchive> models_;
  std::vector<TorchArchive> optimizers_;  // One a rank; of a universal checkpoint the common one.
  std::map<std::string, std::map<std::string, TorchArchive>> universal_;  // By parameter and entry.
  std::vector<std::vector<detail::NamedShape>> shapes_;  // Of each group of flat memory.
  ShardCatalogue weights_;
};

}  // namespace accelerate
