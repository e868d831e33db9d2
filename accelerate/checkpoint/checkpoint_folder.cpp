#include "accelerate/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/byte_progress.h"
#include "accelerate/checkpoint/python/python_folder.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

constexpr const char* kTemporary = ".checkpoint-tmp-";
constexpr const char* kReplaced = ".checkpoint-old-";

Path replaced_sibling(const Path& folder) {
  return folder.parent_path() / (kReplaced + folder.filename().string());
}

std::string random_name() {
  std::random_device random;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%08x%08x", random(), random());
  return digits;
}

// Whether a save made the name: a user's folder that begins alike is not ours to remove.
bool is_temporary_name(const std::string& name) {
  const std::string_view prefix = kTemporary;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == prefix.size() + 16 && name.starts_with(prefix) &&
         std::ranges::all_of(name.substr(prefix.size()), is_digit);
}

// Every save removes the folders with such names.
Path temporary_in(const Path& directory) {
  return directory / (kTemporary + random_name());
}

// Removes what interrupted saves left in `directory`. The caller holds the lock.
void remove_leftovers(FileSystem& files, const Path& directory) {
  for (const auto& name : files.list(directory))
    if (is_temporary_name(name)) files.remove_tree(directory / name);
}

[[noreturn]] void refuse_to_lose(const Path& folder, const std::string& name) {
  throw CheckpointError(folder.string() + " holds '" + name +
                        "', which is not of its checkpoint and would be lost. Move it, or save "
                        "elsewhere.");
}

}  // namespace

void check_replaceable(FileSystem& files, const Path& folder, Replaces replaces) {
  const auto status = files.status(folder);
  if (status.kind == FileKind::none) return;
  if (status.kind != FileKind::directory)
    throw CheckpointError(folder.string() + " is a file; a checkpoint is a folder");
  const auto present = files.list(folder);
  if (present.empty()) return;
  std::set<std::string> known = {Manifest::kName};
  std::string other;
  if (replaces == Replaces::of_python_too && is_python_checkpoint_alone(files, folder, other))
    return;
  if (!other.empty()) refuse_to_lose(folder, other);
  try {
    for (const auto& file : read_manifest(files, folder).files) known.insert(file.name);
  } catch (const Error&) {
    throw_with_context<CheckpointError>(folder.string() +
                                        " is there already and is not a complete checkpoint, so "
                                        "it is not replaced. Remove it, or save elsewhere.");
  }
  for (const auto& name : present)
    if (!known.contains(name)) refuse_to_lose(folder, name);
}

namespace {

// Gives the complete `temporary` its name. A checkpoint that had the name is put aside.
void put_in_place(FileSystem& files, const Path& temporary, const Path& folder) {
  const Path replaced = replaced_sibling(folder);
  if (files.status(folder).kind == FileKind::directory && !files.list(folder).empty()) {
    files.remove_tree(replaced);  // The folder that replaced it exists.
    files.rename(folder, replaced);
  }
  try {
    files.rename(temporary, folder);
  } catch (const Error&) {
    if (files.status(folder).kind == FileKind::none &&
        files.status(replaced).kind == FileKind::directory)
      files.rename(replaced, folder);
    throw;
  }
  files.sync_directory(folder.parent_path());
}

void discard(FileSystem& files, const Path& folder) noexcept {
  try {
    files.remove_tree(folder);
  } catch (const std::exception& error) {
    get_logger("accelerate.checkpoint")
        .warning("cannot remove " + folder.string() + ": " + error.what());
  }
}

// Adds what was being done to the error of a step. A CommError passes unchanged.
void saving(const Path& folder, const std::function<void()>& step) {
  try {
    step();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception&) {
    throw_with_context<CheckpointError>("the checkpoint " + folder.string() + " was not saved");
  }
}

std::uint64_t bytes_of(const Manifest& manifest, const FaultSearch& share) {
  std::uint64_t bytes = 0;
  for (std::size_t i = share.first; i < manifest.files.size(); i += share.stride)
    bytes += manifest.files[i].size_bytes;
  return bytes;
}

// Returns the folders that may be the checkpoint `folder`: itself, and the folder that was put
// aside for it, unless its removal has begun. Returns at least one.
std::vector<CheckedCheckpoint> candidates_for(FileSystem& files, const Path& folder) {
  const Path replaced = replaced_sibling(folder);
  const bool aside = files.status(replaced).kind == FileKind::directory;
  if (aside && files.status(folder).kind == FileKind::none)
    return {{replaced, read_manifest(files, replaced)}};
  std::vector<CheckedCheckpoint> candidates = {{folder, read_manifest(files, folder)}};
  if (!aside) return candidates;
  try {
    candidates.push_back({replaced, read_manifest(files, replaced)});
  } catch (const CheckpointError& error) {
    get_logger("accelerate.checkpoint").debug("left out: " + describe(error));
  }
  return candidates;
}

// Returns the first candidate whose save every rank has, by the names in `reports`.
CheckedCheckpoint of_common_save(const std::vector<CheckedCheckpoint>& candidates,
                                 const std::vector<PhaseReport>& reports) {
  for (const auto& save : reports.front().said) {
    const auto has = [&](const PhaseReport& report) {
      return std::ranges::find(report.said, save) != report.said.end();
    };
    if (!std::ranges::all_of(reports, has)) continue;
    return *std::ranges::find(candidates, save, [](const auto& c) { return c.manifest.save; });
  }
  throw CheckpointError("the disks of the machines hold different saves of " +
                        candidates.front().folder.string() +
                        "; load an earlier checkpoint that all have, or copy one to all");
}

// Returns which files this rank checks: the ranks of a disk divide its files among themselves.
FaultSearch share_of(int rank, const std::vector<PhaseReport>& reports) {
  FaultSearch share{.first = 0, .stride = 0};
  const int leader = reports[static_cast<std::size_t>(rank)].leader;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].leader != leader) continue;
    if (static_cast<int>(i) < rank) ++share.first;
    ++share.stride;
  }
  return share;
}

}  // namespace

// The parts of a save that only the leader of a disk does.
class PendingCheckpoint::Save {
 public:
  Save(FileSystem& files, Path folder, Replaces replaces)
      : files_(files), folder_(std::move(folder)), replaces_(replaces) {}
  ~Save() {
    if (!temporary_.empty()) discard(files_, temporary_);
  }
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  void begin() {
    const Path directory = folder_.parent_path();
    create_directories_durably(files_, directory);
    lock_ = files_.lock(directory);
    remove_leftovers(files_, directory);
    check_replaceable(files_, folder_, replaces_);
    const Path temporary = temporary_in(directory);
    files_.create_directories(temporary);
    temporary_ = temporary;
  }

  /// Takes the files that ranks of this disk reported into the manifest, and writes it.
  void complete(const std::vector<PhaseReport>& reports, int leader) {
    Manifest manifest{.num_processes = static_cast<int>(reports.size()), .files = {}};
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      if (reports[rank].leader != leader) continue;
      manifest.ranks.push_back(static_cast<int>(rank));
      const auto& written = reports[rank].files;
      manifest.files.insert(manifest.files.end(), written.begin(), written.end());
    }
    if (manifest.ranks.size() == reports.size())
      manifest.ranks.clear();
    else
      manifest.save = reports.front().said.front();
    adopt_others(manifest);
    write_manifest(files_, temporary_, std::move(manifest));
  }

  void put_in_place() {
    accelerate::put_in_place(files_, temporary_, folder_);
    temporary_.clear();
  }

  void forget_replaced() noexcept { discard(files_, replaced_sibling(folder_)); }

  [[nodiscard]] const Path& temporary() const { return temporary_; }

 private:
  // Adds files that hooks wrote to the checkpoint.
  void adopt_others(Manifest& manifest) {
    std::set<std::string> known;
    for (const auto& file : manifest.files) known.insert(file.name);
    for (const auto& name : files_.list(temporary_)) {
      if (known.contains(name)) continue;
      const auto status = files_.status(temporary_ / name);
      if (status.kind != FileKind::file)
        throw CheckpointError("a hook made '" + name +
                              "', which is not a file; a checkpoint holds only files");
      const auto file = files_.append(temporary_ / name, status.size_bytes);
      file->sync();
      file->close();
      manifest.files.push_back(manifest_file(files_, temporary_, name));
    }
  }

  FileSystem& files_;
  Path folder_;
  Replaces replaces_;
  Path temporary_;
  std::unique_ptr<FolderLock> lock_;
};

PendingCheckpoint::PendingCheckpoint(FileSystem& files, Communicator& ranks, const Path& folder,
                                     const CheckpointDisk& disk)
    : leader_(disk.leader),
      folder_(folder),
      save_(std::make_unique<Save>(files, folder, disk.replaces)) {
  saving(folder_, [&] {
    const auto reports = in_phase(ranks, [&](PhaseReport& mine) {
      if (ranks.rank() == leader_) save_->begin();
      mine.said = {save_->temporary().string()};
    });
    temporary_ = reports.at(static_cast<std::size_t>(leader_)).said.front();
  });
}

PendingCheckpoint::~PendingCheckpoint() = default;

void PendingCheckpoint::prepare(Communicator& ranks, const std::function<void()>& step) {
  saving(folder_, [&] { on_all_ranks(ranks, step); });
}

// All disks finish a step before any disk begins the next one. So the new checkpoint is complete
// everywhere before it gets its name anywhere, and has its name everywhere before the old one goes.
void PendingCheckpoint::complete(Communicator& ranks, const WriteFiles& write) {
  const bool leads = ranks.rank() == leader_;
  saving(folder_, [&] {
    const auto reports = in_phase(ranks, [&](PhaseReport& mine) {
      mine.files = write(temporary_);
      mine.leader = leader_;
      mine.said = {random_name()};
    });
    in_phase(ranks, [&](PhaseReport&) {
      if (leads) save_->complete(reports, leader_);
    });
    in_phase(ranks, [&](PhaseReport&) {
      if (leads) save_->put_in_place();
    });
    if (leads) save_->forget_replaced();
  });
}

void save_checkpoint(FileSystem& files, Communicator& ranks, const Path& folder,
                     const WriteFiles& write) {
  PendingCheckpoint(files, ranks, folder).complete(ranks, write);
}

CheckedCheckpoint check_checkpoint(FileSystem& files, Communicator& ranks, const Path& folder,
                                   int leader) {
  std::vector<CheckedCheckpoint> candidates;
  const auto reports = in_phase(ranks, [&](PhaseReport& mine) {
    candidates = candidates_for(files, folder);
    mine.leader = leader;
    for (const auto& candidate : candidates) mine.said.push_back(candidate.manifest.save);
  });
  const auto checked = of_common_save(candidates, reports);  // Alike on all ranks, even its error.
  in_phase(ranks, [&](PhaseReport&) {
    FaultSearch search = share_of(ranks.rank(), reports);
    ByteProgress progress(
        {.description = "checking the state", .total_bytes = bytes_of(checked.manifest, search)});
    search.counter = std::ref(progress);
    const auto faults = manifest_faults(files, checked.folder, checked.manifest, search);
    if (!faults.empty())
      throw CheckpointError(
          "the checkpoint " + checked.folder.string() + " is damaged: " + join(faults, "; "),
          error_name::kCheckpointDamaged);
  });
  return checked;
}

void restore_put_aside(FileSystem& files, const Path& directory) {
  const std::string prefix = kReplaced;
  for (const auto& name : files.list(directory)) {
    if (!name.starts_with(prefix)) continue;
    const Path folder = directory / name.substr(prefix.size());
    if (files.status(folder).kind != FileKind::none) continue;
    try {
      check_replaceable(files, directory / name, Replaces::of_python_too);
      files.rename(directory / name, folder);
    } catch (const CheckpointError& error) {  // Its removal has begun.
      get_logger("accelerate.checkpoint").debug("left out: " + describe(error));
    }
  }
}

void remove_checkpoint(FileSystem& files, const Path& folder, Replaces replaces) {
  check_replaceable(files, folder, replaces);
  const Path temporary = temporary_in(folder.parent_path());
  files.rename(folder, temporary);
  files.remove_tree(temporary);
}

}  // namespace accelerate
