// Folders that are complete or absent, whatever happens while they are written: a rank fails, the
// process is killed, the power goes.
//
// Ranks write into a hidden sibling; its files are synced, the manifest is written last, and the
// folder gets its name in one step. Only then the checkpoint that it replaces goes away. What a
// killed save leaves behind is removed by the next one. docs/checkpoints.md tells the whole order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/formats/manifest.h"

namespace accelerate {

/// Runs `phase` on this rank and returns when it is through on all. [collective] When it throws on
/// one, it throws on every rank: there what it threw, elsewhere a CheckpointError that says so.
void on_all_ranks(Communicator& ranks, const std::function<void()>& phase);

/// Writes this rank's files into the given folder, each synced, by names which no other rank uses.
/// See write_planned.
using WriteFiles = std::function<std::vector<ManifestFile>(const std::filesystem::path& folder)>;

/// A checkpoint on its way: a temporary sibling of `folder`, which gets the name when all ranks
/// have written. Goes away again, and the lock with it, when it is destroyed before that. The steps
/// of one may run on several threads, one after the other. See save_checkpoint for `folder` and
/// errors.
class PendingCheckpoint {
 public:
  /// Locks, clears away what a killed save left, makes the sibling. [collective] `leader` is the
  /// lowest of the ranks that share this one's disk: 0 when all do; else every disk gets a
  /// checkpoint of its own, complete or absent on all of them, in a `folder` that may be another on
  /// each.
  PendingCheckpoint(FileSystem& files, Communicator& ranks, const std::filesystem::path& folder,
                    int leader = 0);
  ~PendingCheckpoint();
  PendingCheckpoint(PendingCheckpoint&&) = delete;
  PendingCheckpoint& operator=(PendingCheckpoint&&) = delete;

  /// Where to write meanwhile; the same on all ranks of a disk.
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  /// Runs a step that must succeed on all ranks, such as writing further files. [collective]
  void prepare(Communicator& ranks, const std::function<void()>& step);
  /// Writes and completes it. [collective over `ranks`, the same ranks, perhaps in another group]
  void complete(Communicator& ranks, const WriteFiles& write);

 private:
  class Save;

  int leader_;
  std::filesystem::path folder_, temporary_;
  std::unique_ptr<Save> save_;
};

/// Saves a checkpoint as `folder`, an absolute path that is the same on all ranks, on a file system
/// that all share. [collective] A checkpoint that is there is replaced. Throws CheckpointError on
/// every rank, with the reason of the one that failed, and then what was there before is there
/// still: no room, no permission, another run saving beside it, a folder that is not a checkpoint
/// or that holds files of somebody else's.
void save_checkpoint(FileSystem& files, Communicator& ranks, const std::filesystem::path& folder,
                     const WriteFiles& write);

/// Checks a checkpoint, each rank a part of the files, and returns where it is: `folder`, or aside
/// if a save was killed while it replaced it; where disks are several (see PendingCheckpoint), the
/// same save on all. [collective] Throws CheckpointError on every rank
/// that lists all faults. Cost: every file is read once.
struct CheckedCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};
[[nodiscard]] CheckedCheckpoint check_checkpoint(FileSystem& files, Communicator& ranks,
                                                 const std::filesystem::path& folder,
                                                 int leader = 0);

/// Throws CheckpointError when `folder` holds anything else than one complete checkpoint, so that
/// replacing or removing it would lose something.
void check_replaceable(FileSystem& files, const std::filesystem::path& folder);

/// Removes the checkpoint `folder`, in one step for those who look; the next save beside it clears
/// up what a killed removal leaves. Throws as check_replaceable does, and FileError.
void remove_checkpoint(FileSystem& files, const std::filesystem::path& folder);

/// The folders `checkpoint_<n>` in `directory` by n, greatest first; none when it does not exist.
struct NumberedCheckpoint {
  std::int64_t number = 0;
  std::filesystem::path folder;
};
[[nodiscard]] std::vector<NumberedCheckpoint> numbered_checkpoints(
    FileSystem& files, const std::filesystem::path& directory);

}  // namespace accelerate
