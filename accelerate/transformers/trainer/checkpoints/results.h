// Writes the results of a run as files and as text. Names are as in Transformers.
#pragma once

#include <filesystem>
#include <string>

#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate::detail {

/// Writes trainer_state.json into `folder`.
void write_state(const std::filesystem::path& folder, const TrainerState& state);

/// Writes <split>_results.json into `folder` and, with `combined`, adds the values to
/// all_results.json. Throws FileError, and ConfigError for an all_results.json that is not a map.
void write_results(const std::filesystem::path& folder, const std::string& split,
                   const LogValues& metrics, bool combined);

/// Returns a table with one metric a line, sorted by name; run times as h:mm:ss.
[[nodiscard]] std::string metrics_table(const std::string& split, const LogValues& metrics);

}  // namespace accelerate::detail
