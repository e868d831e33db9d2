// Writes a checkpoint of save_state as a state folder of Python Accelerate, so that FSDP there goes
// on from it. Used by `accelerate convert-state`; see docs/convert_state.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

struct StateForPython {
  std::vector<std::string> written;  ///< Names of the files and folders in the output.
  std::vector<std::string> left;     ///< What of the checkpoint has no counterpart, by its name.
};

/// Converts the checkpoint in `source` to a new folder `output`, which load_state of Python
/// Accelerate reads under FSDP 1 and 2 with SHARDED_STATE_DICT, on any number of ranks:
/// - models and optimizers (AdamW, Adam, SGD, Adagrad, RMSprop) as folders of .distcp files,
/// - schedules and the loss scaler as files of torch.save.
/// Compares the checksums of `source` first. Throws CheckpointError if it is damaged or no
/// checkpoint of ours, for an optimizer of another class, and when it cannot be written. Throws
/// UsageError if `output` exists, or lies in `source`. After an error there is no `output`. Cost: two passes over
/// the data. Memory: 8 MiB for tensors in several parts, and the numbers of the states.
StateForPython write_state_for_python(const std::filesystem::path& source,
                                      const std::filesystem::path& output,
                                      FileSystem& files = real_file_system());

}  // namespace accelerate
