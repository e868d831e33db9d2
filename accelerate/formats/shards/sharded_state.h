// A state that Python's FSDP saved in several files: its tensors as a catalogue, and everything
// else as plain values. Nothing in the files is executed.
//
//   const auto state = open_distcp(folder / "optimizer_0");
//   state.tensors.at("state.fc.weight.exp_avg") …
//   state.values.at("param_groups.0.lr") …
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/shards/flat_parameters.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {

/// A value that is no tensor, and the file that keeps alive what it points into.
struct SavedValue {
  TorchValue value;
  std::shared_ptr<const FileContent> content;
};

struct ShardedState {
  ShardCatalogue tensors;
  std::map<std::string, SavedValue> values;
  /// The keys that lead to a tensor or value, by its name, which is these keys joined by dots:
  /// "state.fc.weight.step" to "state", "fc.weight", "step".
  std::map<std::string, std::vector<std::string>> paths;
};

/// Whether `folder` is a checkpoint of torch.distributed.checkpoint: has a .metadata.
[[nodiscard]] bool is_distcp(const std::filesystem::path& folder,
                             FileSystem& files = real_file_system());

/// Opens a checkpoint of torch.distributed.checkpoint: .metadata and files *.distcp. If the whole
/// state lies below one key, such as "model", names do not have it. Throws CheckpointError, which
/// names file and tensor, for:
/// - a .metadata that is damaged or hostile; see read_distcp_metadata,
/// - a file that is missing or too short, and parts that share bytes,
/// - an archive that is damaged, or holds another tensor than .metadata says,
/// - tensors with holes or overlaps; see ShardCatalogue.
/// Cost: tables of contents are read, data is not; a part that is not row-major is copied.
[[nodiscard]] ShardedState open_distcp(const std::filesystem::path& folder,
                                       FileSystem& files = real_file_system());

/// Opens files that each rank wrote by torch.save (use_dcp=False), in the order of the ranks. A
/// tensor that every rank has whole is taken from the first file, and so is every other value. If
/// a rank is missing, throws CheckpointError. So it does for a state of LOCAL_STATE_DICT, unless
/// `flat` knows the parameters of the model.
[[nodiscard]] ShardedState open_rank_files(const std::vector<std::filesystem::path>& paths,
                                           FileSystem& files = real_file_system(),
                                           detail::FlatParameters* flat = nullptr);

}  // namespace accelerate
