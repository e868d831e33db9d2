// The files of a repository at a commit. A commit never changes, so the list is kept in the cache,
// as Python's huggingface_hub 2 keeps it: trees/<commit>.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/hub/cache/repository_cache.h"
#include "accelerate/hub/transfer/hub_client.h"

namespace accelerate {

/// A file of a repository.
struct RepositoryFile {
  std::string path;              ///< With '/'; safe below a folder.
  std::uint64_t size_bytes = 0;  ///< Of its content, also where Git holds only a pointer to it.
  std::string blob_id;           ///< Git's name of the content, or of the pointer to it.
  std::string sha256 = {};       ///< Of the content of a large file; "" for others.
  std::string xet_hash = {};     ///< "" where it is not stored by Xet.

  /// The name of the content in the cache.
  [[nodiscard]] const std::string& etag() const { return sha256.empty() ? blob_id : sha256; }
};

namespace detail {

/// Asks the hub which commit a revision is, and for its files in the order of their paths.
/// Throws NetworkError for an answer that is no such list, as for a path that leads out of it.
[[nodiscard]] std::string commit_at(HubClient& client, const HubSubject& subject);
[[nodiscard]] std::vector<RepositoryFile> list_tree(HubClient& client, const HubSubject& subject);

/// The list that is in the cache; nullopt if there is none, or it cannot be read.
[[nodiscard]] std::optional<std::vector<RepositoryFile>> cached_tree(const RepositoryCache& cache,
                                                                     const std::string& commit);
/// Puts it there. Failures are ignored.
void cache_tree(const RepositoryCache& cache, const std::string& commit,
                const std::vector<RepositoryFile>& files);

}  // namespace detail
}  // namespace accelerate
