// Reads trainer_state.json of Transformers' Trainer as the history of a run.
#pragma once

#include <filesystem>

#include "accelerate/watch/run_log/run_history.h"

namespace accelerate {

/// Returns the history in the file at `path`: its log_history, and the checkpoint-N folders of its
/// run. They lie beside the file, or beside its folder when that is a checkpoint-N folder itself.
/// The file has no times and no arguments. Throws FileError when the file cannot be read or has
/// more than 256 MiB, ConfigError when it is not such a file.
[[nodiscard]] RunHistory read_trainer_state(const std::filesystem::path& path);

/// Returns the N of "checkpoint-N"; -1 for other names.
[[nodiscard]] std::int64_t checkpoint_step(const std::string& name);

}  // namespace accelerate
