// Checkpoints that are folders with a number in their names: which there are, and which of them a
// limit removes. save_state() names its folders checkpoint_<n>, the Trainer checkpoint-<step>.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

struct NumberedCheckpoint {
  std::int64_t number = 0;
  std::filesystem::path folder;
};

/// Returns the folders `<prefix><number>` in `directory`, lowest number first. Returns none if
/// `directory` does not exist. A name with leading zeros does not count. Throws FileError.
[[nodiscard]] std::vector<NumberedCheckpoint> numbered_checkpoints(
    FileSystem& files, const std::filesystem::path& directory, std::string_view prefix);

/// Returns the checkpoints of `oldest_first` that are too many, in the same order. The newest
/// `limit` stay. `best` stays and counts as one of them; with a limit of 1 both `best` and the
/// newest stay. An empty `best` means that no checkpoint is the best one.
[[nodiscard]] std::vector<NumberedCheckpoint> beyond_limit(
    std::vector<NumberedCheckpoint> oldest_first, std::int64_t limit,
    const std::filesystem::path& best = {});

/// Whether both paths lead to the same existing folder.
[[nodiscard]] bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace accelerate
