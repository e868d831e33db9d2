#include "accelerate/parallel/offload/offload_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <regex>
#include <system_error>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"

namespace accelerate::detail {
namespace {

constexpr const char* kPrefix = "accelerate-offload-";
constexpr const char* kLockFile = ".lock";              // A killed process leaves it.
constexpr long kCifs = 0xFF534D42, kSmb2 = 0xFE534D42;  // <linux/magic.h> has not had them always.

// While alive, no other process makes or removes folders below `root`: between the making of a
// folder and its lock it would look like one that a killed process left.
class RootLock {
 public:
  explicit RootLock(const std::filesystem::path& root) {
    const auto path = root / ".accelerate-offload.lock";
    // Another user may have made it, who lets others read it.
    file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_.valid() && errno == ENOENT)
      file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!file_.valid()) throw FileError("make", path, errno);
    while (::flock(file_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) throw FileError("lock", path, errno);
    }
  }

 private:
  Descriptor file_;
};

// The lock file goes last: a folder without one is nobody's to remove, so that a process which is
// killed meanwhile would leave the rest for ever.
bool remove_folder(FileSystem& files, const std::filesystem::path& folder) {
  for (const auto& name : files.list(folder)) {
    if (name != kLockFile) files.remove_tree(folder / name);
  }
  return files.remove_tree(folder);
}

// Whether OffloadFolder gives such names.
bool is_name_of_folder(const std::string& name) {
  static const std::regex names(kPrefix + std::string("[0-9]+-[0-9]+-rank[0-9]+"));
  return std::regex_match(name, names);
}

// Whether a process made this folder and locked it, maybe long ago.
bool is_ours(FileSystem& files, const std::filesystem::path& folder) {
  std::error_code ignored;
  return is_name_of_folder(folder.filename().string()) &&
         !std::filesystem::is_symlink(folder, ignored) &&
         files.status(folder / kLockFile).kind == FileKind::file;
}

// Removes the folders that killed processes have left. What cannot be removed stays: it may be
// another user's.
void remove_stale(FileSystem& files, const std::filesystem::path& root) {
  for (const auto& name : files.list(root)) {
    if (!is_ours(files, root / name)) continue;
    try {
      const auto unlocked = files.lock(root / name);
      if (remove_folder(files, root / name)) {
        get_logger("accelerate.offload")
            .info("removed '" + (root / name).string() + "', which a killed process had left");
      }
    } catch (const FileError&) {
      // In use, or not ours.
    }
  }
}

void warn_of_file_system(const std::filesystem::path& root) {
  struct statfs status{};
  if (::statfs(root.c_str(), &status) != 0) return;
  const std::string weakness = weakness_of_file_system(status.f_type);
  if (weakness.empty()) return;
  get_logger("accelerate.offload")
      .warning_once("the folder for offload '" + root.string() + "' " + weakness);
}

}  // namespace

std::string weakness_of_file_system(long type) {
  if (type == TMPFS_MAGIC || type == RAMFS_MAGIC)
    return "is memory (tmpfs), so that nothing is gained: name a folder on a local disk";
  if (type == NFS_SUPER_MAGIC || type == SMB_SUPER_MAGIC || type == kCifs || type == kSmb2)
    return "is on another machine, and every step would wait for the network: name a folder on a "
           "local disk";
  return {};
}

OffloadFolder::OffloadFolder(const std::filesystem::path& root, const std::string& job, int rank)
    // The program may go to another working directory.
    : path_(std::filesystem::absolute(root) / (kPrefix + job + "-rank" + std::to_string(rank))),
      process_(::getpid()) {
  FileSystem& files = real_file_system();
  files.create_directories(root);
  warn_of_file_system(root);
  const RootLock alone(root);
  remove_stale(files, root);
  files.create_directories(path_);
  lock_ = files.lock(path_);
}

// Under the lock of `root`: else another process could make a new lock file in a folder of which
// only the end is left to remove.
OffloadFolder::~OffloadFolder() {
  if (process_ != ::getpid()) return;  // A forked child leaves it to the process that made it.
  try {
    if (real_file_system().status(path_).kind == FileKind::none) return;
    const RootLock alone(path_.parent_path());
    remove_folder(real_file_system(), path_);
  } catch (const std::exception& error) {
    get_logger("accelerate.offload").warning("'" + path_.string() + "' stays: " + error.what());
  }
}

}  // namespace accelerate::detail
