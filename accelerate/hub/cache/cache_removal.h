// Removes parts of the local cache of Hugging Face's hub. Never uses the network.
//
//   const CacheScan scan = scan_cache();
//   const CacheRemoval removal = plan_removal(scan, {"model/org/name", "0123456"});
//   std::cout << format_bytes(removal.freed_bytes);
//   remove(removal);
//
// Numbers equal huggingface_hub 2.4's. Source: `delete_revisions` in `utils/_cache_manager.py`,
// `utils/_shared_blobs.py`, `hf cache rm` in `cli/cache.py`.
//
// Threads: every function may be called from several threads at once. No other process or thread
// may download into what remove() removes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/hub/cache/cache_scan.h"

namespace accelerate {

/// What remove() removes. Every path is absolute and in `cache`.
struct CacheRemoval {
  std::filesystem::path cache;                   ///< The scanned folder.
  std::vector<std::filesystem::path> refs;       ///< Files below refs/ of removed revisions.
  std::vector<std::filesystem::path> records;    ///< Their trees/<commit>.json, .no_exist/<commit>.
  std::vector<std::filesystem::path> snapshots;  ///< Their folders.
  std::vector<std::filesystem::path> blobs;      ///< Contents that no other revision uses.
  std::vector<std::filesystem::path> repos;      ///< Folders of repositories that go whole.
  std::vector<std::filesystem::path> locks;      ///< The folders below .locks/ of these.
  /// Shared contents that go when no repository links to them any more.
  std::vector<std::filesystem::path> shared;
  std::uint64_t freed_bytes = 0;    ///< Bytes of contents that go.
  std::vector<std::string> faults;  ///< What stays though it was chosen, one sentence each.
};

/// Returns what to remove so that all of `what` leaves the cache. Removes nothing. Each of `what`
/// is one of:
/// - a commit: all digits, or at least the first 7 of them,
/// - a repository: "model/organization/name", "dataset/name", or the id alone,
/// - a commit of one repository: "model/organization/name@0123456".
///
/// Case does not matter where only one repository fits. Blobs that other revisions of the
/// repository use stay. A repository that loses its last revision goes whole.
///
/// What is reached only through a link stays and is a fault; its bytes are not in freed_bytes. So
/// is a blob that is neither in blobs/ of its repository nor in the removed snapshot. A folder of a
/// repository that is itself a link loses the link only.
///
/// Throws ConfigError when one of `what` fits nothing in the scan, or several things. Cost: a few
/// system calls for each removed blob.
[[nodiscard]] CacheRemoval plan_removal(const CacheScan& scan,
                                        const std::vector<std::string>& what);

/// Removes what `removal` names: refs first, then records, snapshots, blobs, and shared contents
/// last. Each kind is on the disk's record as gone before the next begins. So whenever this stops,
/// every ref that is left has its snapshot, and every link its content. What is gone already is no
/// error. Never follows a link. Throws FileError, before anything is removed, when a path is not in
/// `cache` or a link lies on the way to it. Throws FileError at the first path that cannot be
/// removed; call again after the cure. Waits while Python changes a shared content. Cost: some
/// system calls for each file. `files` serves tests.
void remove(const CacheRemoval& removal, FileSystem& files = real_file_system());

}  // namespace accelerate
