// Folders that are complete or absent, whatever happens while they are written: a rank fails, the
// process is killed, the power goes.
//
// Ranks write into a hidden sibling. Its files are synced, the manifest is written last, and then
// the folder gets its name in one step. Only after that is the checkpoint removed that it replaces.
// The next save removes what a killed save left behind. docs/checkpoints.md describes all steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/rank_phases.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/formats/manifest.h"

namespace accelerate {

/// Writes this rank's files into the given folder, each synced, under names that no other rank
/// uses. See write_planned.
using WriteFiles = std::function<std::vector<ManifestFile>(const std::filesystem::path& folder)>;

/// Which folders a checkpoint may replace: checkpoints of this library, or those of Python's Trainer
/// too.
enum class Replaces { own, of_python_too };

/// The disk that a checkpoint is written to.
struct CheckpointDisk {
  int leader = 0;  ///< The lowest of the ranks that share this rank's disk.
  Replaces replaces = Replaces::own;
};

/// A checkpoint that is being written: a temporary sibling of `folder`, which gets that name when
/// all ranks have written. If destroyed earlier, it removes the sibling and releases the lock. Its
/// steps may run on different threads, one after the other. See save_checkpoint for `folder` and
/// errors.
class PendingCheckpoint {
 public:
  /// Takes the lock, removes what a killed save left, and makes the sibling. [collective] With
  /// several disks each gets a checkpoint, complete on all of them or absent on all. `folder` may
  /// then differ between disks.
  PendingCheckpoint(FileSystem& files, Communicator& ranks, const std::filesystem::path& folder,
                    const CheckpointDisk& disk = {});
  ~PendingCheckpoint();
  PendingCheckpoint(PendingCheckpoint&&) = delete;
  PendingCheckpoint& operator=(PendingCheckpoint&&) = delete;

  /// The folder to write into meanwhile; the same on all ranks of a disk.
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  /// Runs a step that must succeed on all ranks, such as writing further files. [collective]
  void prepare(Communicator& ranks, const std::function<void()>& step);
  /// Writes and completes the checkpoint. [collective over `ranks`: the same ranks, but it may be
  /// another group]
  void complete(Communicator& ranks, const WriteFiles& write);

 private:
  class Save;

  int leader_;
  std::filesystem::path folder_, temporary_;
  std::unique_ptr<Save> save_;
};

/// Saves a checkpoint as `folder`, an absolute path that is the same on all ranks, on a file system
/// that all ranks share. [collective] Replaces an earlier checkpoint there. Throws CheckpointError
/// on every rank, with the reason of the rank that failed; what was there before is still there
/// then. Reasons: no room, no permission, another run that saves beside it, a folder that is not a
/// checkpoint or that holds other files.
void save_checkpoint(FileSystem& files, Communicator& ranks, const std::filesystem::path& folder,
                     const WriteFiles& write);

struct CheckedCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};
/// Checks a checkpoint and returns where it is: `folder`, or the folder put aside if a save was
/// killed while it replaced `folder`. Each rank checks a part of the files. With several disks (see
/// PendingCheckpoint) finds the same save on all. [collective] Throws CheckpointError on every
/// rank; it lists all faults that the rank found. Cost: every file is read once.
[[nodiscard]] CheckedCheckpoint check_checkpoint(FileSystem& files, Communicator& ranks,
                                                 const std::filesystem::path& folder,
                                                 int leader = 0);

/// Throws CheckpointError if `folder` holds anything else than one complete checkpoint, so that
/// replacing or removing it would lose something.
void check_replaceable(FileSystem& files, const std::filesystem::path& folder,
                       Replaces replaces = Replaces::own);

/// Gives the checkpoints in `directory` their names back that a killed save put aside. The caller
/// makes sure that nobody saves there meanwhile. Throws FileError.
void restore_put_aside(FileSystem& files, const std::filesystem::path& directory);

/// Removes the checkpoint `folder`, in one step as other processes see it. The next save beside it
/// deletes what a killed removal leaves. Throws as check_replaceable does, and FileError.
void remove_checkpoint(FileSystem& files, const std::filesystem::path& folder,
                       Replaces replaces = Replaces::own);

}  // namespace accelerate
