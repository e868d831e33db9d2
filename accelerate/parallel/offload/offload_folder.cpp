#include "accelerate/parallel/offload/offload_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include <cerrno>
#include <exception>

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
    file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_.valid()) throw FileError("make", path, errno);
    while (::flock(file_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) throw FileError("lock", path, errno);
    }
  }

 private:
  Descriptor file_;
};

// Removes the folders that killed processes have left. What cannot be removed stays: it may be
// another user's.
void remove_stale(FileSystem& files, const std::filesystem::path& root) {
  for (const auto& name : files.list(root)) {
    const bool is_ours =
        name.starts_with(kPrefix) && files.status(root / name / kLockFile).kind == FileKind::file;
    if (!is_ours) continue;
    try {
      const auto unlocked = files.lock(root / name);
      if (files.remove_tree(root / name)) {
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
    : path_(root / (kPrefix + job + "-rank" + std::to_string(rank))) {
  FileSystem& files = real_file_system();
  files.create_directories(root);
  warn_of_file_system(root);
  const RootLock alone(root);
  remove_stale(files, root);
  files.create_directories(path_);
  lock_ = files.lock(path_);
}

// Without the lock of `root`: whoever finds the folder unlocked removes it too.
OffloadFolder::~OffloadFolder() {
  try {
    real_file_system().remove_tree(path_);
  } catch (const std::exception& error) {
    get_logger("accelerate.offload").warning("'" + path_.string() + "' stays: " + error.what());
  }
}

}  // namespace accelerate::detail
