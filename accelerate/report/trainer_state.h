// trainer_state.json of Transformers' Trainer as the history of a run.
#pragma once

#include <filesystem>

#include "accelerate/report/run_history.h"

namespace accelerate {

/// The history that the file at `path` tells: its log_history, and checkpoint-N folders beside it
/// or beside its own folder. Times and arguments are not in it. At most 256 MiB. Throws FileError
/// when it cannot be read, ConfigError when it is no such file.
[[nodiscard]] RunHistory read_trainer_state(const std::filesystem::path& path);

/// The N of "checkpoint-N"; -1 for other names.
[[nodiscard]] std::int64_t checkpoint_step(const std::string& name);

}  // namespace accelerate
