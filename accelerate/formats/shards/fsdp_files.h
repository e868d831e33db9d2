// Finds what FSDP of Python Accelerate has saved in a folder: models and optimizers in files of
// each state_dict_type. docs/formats/distcp.md lists the names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/shards/sharded_state.h"

namespace accelerate {

/// The files of one model or optimizer.
struct FsdpFiles {
  enum class Form {
    distcp,      ///< SHARDED_STATE_DICT: a folder of torch.distributed.checkpoint.
    rank_files,  ///< One file of torch.save a rank.
    full,        ///< FULL_STATE_DICT: one file of torch.save.
  };

  Form form = Form::distcp;
  /// The folder, the files in the order of the ranks, or the file.
  std::vector<std::filesystem::path> paths;
};

inline constexpr std::string_view kFsdpModel = "pytorch_model_fsdp";
inline constexpr std::string_view kFsdpOptimizer = "optimizer";

/// Returns the files of number `number` of `kind` (kFsdpModel or kFsdpOptimizer) in `folder`;
/// nullopt if there are none. Does not open them. Throws CheckpointError if the file of a rank is
/// missing between others, or if there are files of two forms. A file of a whole optimizer is not
/// looked for, since it has the same name without FSDP.
[[nodiscard]] std::optional<FsdpFiles> fsdp_files_in(const std::filesystem::path& folder,
                                                     std::string_view kind, int number,
                                                     FileSystem& files = real_file_system());

/// Opens what fsdp_files_in has found. Throws CheckpointError; see sharded_state.h, also for `flat`.
[[nodiscard]] ShardedState open_fsdp_files(const FsdpFiles& found,
                                           FileSystem& files = real_file_system(),
                                           detail::FlatParameters* flat = nullptr);

/// Opens the weights of a model. Throws CheckpointError like open_fsdp_files, and for a value that
/// is no tensor, by its name.
[[nodiscard]] ShardCatalogue open_fsdp_model(const FsdpFiles& found,
                                             FileSystem& files = real_file_system(),
                                             detail::FlatParameters* flat = nullptr);

}  // namespace accelerate
