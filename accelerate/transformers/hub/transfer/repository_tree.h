// The files of a repository at a commit. A commit never changes, so the list is kept in the cache
// as trees/<commit>.json, as in Python's huggingface_hub 2.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/cache/repository_cache.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate {

/// A file of a repository.
struct RepositoryFile {
  std::string path;              ///< With '/'; cannot lead out of a folder.
  std::uint64_t size_bytes = 0;  ///< Size of the content, also of an LFS file.
  std::string blob_id;           ///< Git's name of the content, or of its LFS pointer.
  std::string sha256 = {};       ///< Of a large file's content; "" for small files.
  std::string xet_hash = {};     ///< "" if the file is not stored by Xet.

  /// Returns the name of the content in the cache.
  [[nodiscard]] const std::string& etag() const { return sha256.empty() ? blob_id : sha256; }
};

namespace detail {

/// commit_at() asks the hub for the commit of a revision, list_tree() for its files in the order of
/// their paths. Both throw NetworkError for an answer of another form, such as a path that leads
/// out of the repository.
[[nodiscard]] std::string commit_at(HubClient& client, const HubSubject& subject);
[[nodiscard]] std::vector<RepositoryFile> list_tree(HubClient& client, const HubSubject& subject);

/// Returns the list in the cache; nullopt if there is none or it cannot be read.
[[nodiscard]] std::optional<std::vector<RepositoryFile>> cached_tree(const RepositoryCache& cache,
                                                                     const std::string& commit);
/// Stores the list in the cache. Failures are ignored.
void cache_tree(const RepositoryCache& cache, const std::string& commit,
                const std::vector<RepositoryFile>& files);

}  // namespace detail
}  // namespace accelerate
