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
// Threads: every function may be called from several threads at the same time. No other process or
// thread may download into what remove() removes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/transformers/hub/cache/cache_scan.h"

namespace accelerate {

/// What remove() removes. Every path is absolute and in `cache`.
struct CacheRemoval {
  std::filesystem::path cache;                   ///< The scanned folder.
  std::vector<std::filesystem::path> refs;       ///< Files below refs/ of removed revisions.
  std::vector<std::filesystem::path> records;    ///< trees/<commit>.json, .no_exist/<commit>.
  std::vector<std::filesystem::path> snapshots;  ///< Folders of removed revisions.
  std::vector<std::filesystem::path> blobs;      ///< Contents that no other revision uses.
  std::vector<std::filesystem::path> repos;      ///< Folders of repositories removed as a whole.
  std::vector<std::filesystem::path> locks;      ///< Folders below .locks/ of these repositories.
  /// Shared contents that are removed if no repository links to them afterwards.
  std::vector<std::filesystem::path> shared;
  std::uint64_t freed_bytes = 0;    ///< Bytes of removed contents.
  std::vector<std::string> faults;  ///< What was chosen but stays, one sentence each.
};

/// Plans a removal of everything in `what` from the cache. Removes nothing. Each entry of `what` is
/// one of:
/// - a commit: all digits, or at least the first 7 of them,
/// - a repository: "model/organization/name", "dataset/name", or the id alone,
/// - a commit of one repository: "model/organization/name@0123456".
///
/// Case does not matter if only one repository fits. Blobs that other revisions of the repository
/// use stay. A repository that loses its last revision is removed whole.
///
/// A file that is reached only through a link stays. It becomes a fault, and its bytes are not in
/// freed_bytes. The same holds for a blob that is neither in blobs/ of its repository nor in the
/// removed snapshot. If a repository's folder is itself a link, only the link is removed.
///
/// Throws ConfigError when an entry of `what` matches nothing in the scan, or several things. Cost:
/// a few system calls for each removed blob.
[[nodiscard]] CacheRemoval plan_removal(const CacheScan& scan,
                                        const std::vector<std::string>& what);

/// Removes everything in `removal`: refs first, then records, snapshots and blobs, shared contents
/// last. Each kind is synced to the disk before the next begins. So if the removal is interrupted,
/// every remaining ref has its snapshot, and every remaining link its content. Paths that are
/// already gone are skipped. Never follows a link.
///
/// Throws FileError, before anything is removed, when a path is not in `cache` or a link lies on
/// the way to it. Throws FileError at the first path that cannot be removed; fix the cause and call
/// again. Waits while Python changes a shared content. Cost: some system calls for each file.
/// `files` serves tests.
void remove(const CacheRemoval& removal, FileSystem& files = real_file_system());

}  // namespace accelerate
