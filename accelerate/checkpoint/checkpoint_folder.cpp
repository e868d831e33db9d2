#include "accelerate/checkpoint/checkpoint_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/byte_progress.h"
#include "accelerate/comm/objects.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

constexpr const char* kTemporary = ".checkpoint-tmp-";
constexpr const char* kReplaced = ".checkpoint-old-";

Path replaced_sibling(const Path& folder) {
  return folder.parent_path() / (kReplaced + folder.filename().string());
}

Path temporary_sibling(const Path& folder) {
  std::random_device random;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%08x%08x", random(), random());
  return folder.parent_path() / (std::string(kTemporary) + digits);
}

// What a rank has to say at the end of a phase.
struct Report {
  std::string error;  // Empty: all is well.
  std::vector<ManifestFile> files;
};

void to_json(nlohmann::json& json, const Report& report) {
  json = {{"error", report.error}, {"files", nlohmann::json::array()}};
  for (const auto& file : report.files)
    json["files"].push_back({file.name, file.size_bytes, file.checksum});
}

void from_json(const nlohmann::json& json, Report& report) {
  json.at("error").get_to(report.error);
  for (const auto& file : json.at("files"))
    report.files.push_back({file.at(0).get<std::string>(), file.at(1).get<std::uint64_t>(),
                            file.at(2).get<std::uint64_t>()});
}

// Runs `phase` on this rank and hears how it went on all: their reports, or a CheckpointError on
// every rank when one failed. [collective]
std::vector<Report> in_phase(Communicator& ranks, const std::function<void(Report&)>& phase) {
  Report mine;
  std::exception_ptr failure;
  try {
    phase(mine);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    mine.error = describe(error);
  }
  auto reports = gather_object(ranks, mine);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (!reports[rank].error.empty())
      throw CheckpointError("rank " + std::to_string(rank) + " failed: " + reports[rank].error);
  }
  return reports;
}

// What an interrupted save left in `directory`; the caller holds the lock.
void remove_leftovers(FileSystem& files, const Path& directory) {
  for (const auto& name : files.list(directory))
    if (name.starts_with(kTemporary)) files.remove_tree(directory / name);
}

// That `folder` may be replaced: nothing is lost but a checkpoint.
void check_replaceable(FileSystem& files, const Path& folder) {
  const auto status = files.status(folder);
  if (status.kind == FileKind::none) return;
  if (status.kind != FileKind::directory)
    throw CheckpointError(folder.string() + " is a file; a checkpoint is a folder");
  const auto present = files.list(folder);
  if (present.empty()) return;
  std::set<std::string> known = {Manifest::kName};
  try {
    for (const auto& file : read_manifest(files, folder).files) known.insert(file.name);
  } catch (const Error&) {
    throw_with_context<CheckpointError>(folder.string() +
                                        " is there already and is not a complete checkpoint, so "
                                        "it is not replaced. Remove it, or save elsewhere.");
  }
  for (const auto& name : present) {
    if (!known.contains(name))
      throw CheckpointError(folder.string() + " holds '" + name +
                            "', which is not of its checkpoint and would be lost. Move it, or save "
                            "elsewhere.");
  }
}

// Gives the complete `temporary` its name.
void put_in_place(FileSystem& files, const Path& temporary, const Path& folder) {
  const Path replaced = replaced_sibling(folder);
  const Path directory = folder.parent_path();
  if (files.status(folder).kind == FileKind::directory && !files.list(folder).empty()) {
    files.remove_tree(replaced);  // Its successor is there.
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
  files.sync_directory(directory);
  files.remove_tree(replaced);
}

void discard(FileSystem& files, const Path& folder) noexcept {
  try {
    files.remove_tree(folder);
  } catch (const std::exception& error) {
    get_logger("accelerate.checkpoint")
        .warning("cannot remove " + folder.string() + ": " + error.what());
  }
}

// Adds what was being done to the error of a step; lost ranks stay what they are.
void saving(const Path& folder, const std::function<void()>& step) {
  try {
    step();
  } catch (const CommError&) {
    throw;
  } catch (const Error&) {
    throw_with_context<CheckpointError>("the checkpoint " + folder.string() + " was not saved");
  }
}

std::uint64_t bytes_of(const Manifest& manifest, const FaultSearch& share) {
  std::uint64_t bytes = 0;
  for (std::size_t i = share.first; i < manifest.files.size(); i += share.stride)
    bytes += manifest.files[i].size_bytes;
  return bytes;
}

}  // namespace

// The parts of a save that only the main rank does.
class PendingCheckpoint::Save {
 public:
  Save(FileSystem& files, Path folder) : files_(files), folder_(std::move(folder)) {}
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
    check_replaceable(files_, folder_);
    const Path temporary = temporary_sibling(folder_);
    files_.create_directories(temporary);
    temporary_ = temporary;
  }

  void complete(const std::vector<Report>& reports) {
    Manifest manifest{.num_processes = static_cast<int>(reports.size()), .files = {}};
    for (const auto& report : reports)
      manifest.files.insert(manifest.files.end(), report.files.begin(), report.files.end());
    adopt_others(manifest);
    write_manifest(files_, temporary_, std::move(manifest));
    put_in_place(files_, temporary_, folder_);
    temporary_.clear();
  }

  [[nodiscard]] const Path& temporary() const { return temporary_; }

 private:
  // Files that hooks wrote are part of the checkpoint too.
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
  Path temporary_;
  std::unique_ptr<FolderLock> lock_;
};

void on_all_ranks(Communicator& ranks, const std::function<void()>& phase) {
  in_phase(ranks, [&](Report&) { phase(); });
}

PendingCheckpoint::PendingCheckpoint(FileSystem& files, Communicator& ranks, const Path& folder)
    : folder_(folder), save_(std::make_unique<Save>(files, folder)) {
  saving(folder_, [&] {
    in_phase(ranks, [&](Report&) {
      if (ranks.rank() == 0) save_->begin();
    });
    temporary_ = broadcast_object(ranks, save_->temporary().string(), 0);
  });
}

PendingCheckpoint::~PendingCheckpoint() = default;

void PendingCheckpoint::prepare(Communicator& ranks, const std::function<void()>& step) {
  saving(folder_, [&] { on_all_ranks(ranks, step); });
}

void PendingCheckpoint::complete(Communicator& ranks, const WriteFiles& write) {
  saving(folder_, [&] {
    const auto reports = in_phase(ranks, [&](Report& mine) { mine.files = write(temporary_); });
    in_phase(ranks, [&](Report&) {
      if (ranks.rank() == 0) save_->complete(reports);
    });
  });
}

void save_checkpoint(FileSystem& files, Communicator& ranks, const Path& folder,
                     const WriteFiles& write) {
  PendingCheckpoint(files, ranks, folder).complete(ranks, write);
}

CheckedCheckpoint check_checkpoint(FileSystem& files, Communicator& ranks, const Path& folder) {
  CheckedCheckpoint checked{folder, {}};
  const Path replaced = replaced_sibling(folder);
  in_phase(ranks, [&](Report&) {
    if (files.status(folder).kind == FileKind::none &&
        files.status(replaced).kind == FileKind::directory)
      checked.folder = replaced;
    checked.manifest = read_manifest(files, checked.folder);
  });
  in_phase(ranks, [&](Report&) {
    FaultSearch search{.first = static_cast<std::size_t>(ranks.rank()),
                       .stride = static_cast<std::size_t>(ranks.size())};
    ByteProgress progress(
        {.description = "checking the state", .total_bytes = bytes_of(checked.manifest, search)});
    search.counter = std::ref(progress);
    const auto faults = manifest_faults(files, checked.folder, checked.manifest, search);
    if (!faults.empty())
      throw CheckpointError("the checkpoint " + checked.folder.string() +
                            " is damaged: " + join(faults, "; "));
  });
  return checked;
}

std::vector<NumberedCheckpoint> numbered_checkpoints(FileSystem& files, const Path& directory) {
  constexpr std::string_view kPrefix = "checkpoint_";
  std::vector<NumberedCheckpoint> found;
  if (files.status(directory).kind != FileKind::directory) return found;
  for (const auto& name : files.list(directory)) {
    if (!name.starts_with(kPrefix)) continue;
    const auto digits = name.substr(kPrefix.size());
    const auto number = parse_int(digits);
    if (number && *number >= 0 && std::to_string(*number) == digits)
      found.push_back({*number, directory / name});
  }
  std::ranges::sort(found, std::greater(), &NumberedCheckpoint::number);
  return found;
}

}  // namespace accelerate
