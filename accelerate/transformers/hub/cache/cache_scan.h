// Lists what the local cache of Hugging Face's hub holds. Never uses the network. cache.h describes
// the layout. A repository's folder also holds
//
//   trees/<commit>.json        the listing of a commit
//   .no_exist/<commit>/…       files that the commit is known to lack
//
// and the cache also holds
//
//   blobs/<aa>/<hash>          a content that repositories share; their blobs/<etag> link to it
//   blobs/<aa>/<hash>.refs     the blobs that link to it
//   .locks/<repository>/       locks of downloads
//
// Numbers equal huggingface_hub 2.4's. Source: `scan_cache_dir` in `utils/_cache_manager.py`,
// `utils/_shared_blobs.py`.
//
// Threads: every function may be called from several threads at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/transformers/hub/cache/cache.h"

namespace accelerate {

/// A file that holds content.
struct CachedBlob {
  std::filesystem::path path;    ///< Absolute. May be a link to a shared content.
  std::uint64_t size_bytes = 0;  ///< Size of the content, links followed.
};

/// A commit of a repository, as far as it was downloaded.
struct CachedRevision {
  std::string commit;              ///< 40 hex digits, unless somebody made other folders.
  std::vector<std::string> refs;   ///< Branches, tags and "refs/pr/N" with this commit, sorted.
  std::filesystem::path snapshot;  ///< The folder with its files.
  std::size_t files = 0;           ///< Files in the snapshot.
  std::uint64_t size_bytes = 0;    ///< Sum over `blobs`.
  std::chrono::system_clock::time_point last_modified;  ///< Of the newest blob, else the folder.
  std::vector<CachedBlob> blobs;                        ///< Targets of the files, each once.
};

/// A model or dataset in the cache.
struct CachedRepo {
  std::string id;  ///< "organization/name" or "name".
  RepoType type = RepoType::model;
  std::filesystem::path path;                           ///< Its folder in the cache.
  std::size_t files = 0;                                ///< Blobs of all revisions, each once.
  std::uint64_t size_bytes = 0;                         ///< Sum over these blobs.
  std::chrono::system_clock::time_point last_accessed;  ///< Latest of all blobs, else the folder.
  std::chrono::system_clock::time_point last_modified;  ///< Of the newest blob, else the folder.
  std::vector<CachedRevision> revisions;                ///< Sorted by commit.

  /// Returns "model/<id>" or "dataset/<id>", as `hf cache ls` shows it.
  [[nodiscard]] std::string cache_id() const;
};

/// What a cache holds.
struct CacheScan {
  std::filesystem::path path;  ///< The cache's folder, absolute and without links.
  /// Bytes of `repos` and of the shared contents. A shared content counts once. Repositories named
  /// in `faults` do not count.
  std::uint64_t size_bytes = 0;
  std::vector<CachedRepo> repos;       ///< Sorted by path.
  std::vector<std::string> faults;     ///< Why something is left out, one sentence each.
  std::vector<CachedBlob> incomplete;  ///< Parts of interrupted downloads, sorted by path.
};

/// Lists what the cache in `cache_dir` holds; hub_cache_folder() if it is empty. "~" is expanded. A
/// damaged repository becomes a fault and is left out: a link without content, a ref to a missing
/// snapshot, a folder that cannot be read. Spaces and kernels, which this library does not use,
/// become faults too. Throws FileError when the cache's folder is missing or not a folder. Cost:
/// some system calls for each file in the cache; contents are not read.
[[nodiscard]] CacheScan scan_cache(const std::filesystem::path& cache_dir = {});

}  // namespace accelerate
