// One repository's folder in the cache, for code that fills it. hub/cache/cache.h has the layout.
//
// At whatever moment a process is killed, readers see only complete files. Content is written in
// the same folder under a name that ends in ".incomplete", and links are made only to complete
// content.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail {

/// Keeps other processes from fetching the same content; Python's huggingface_hub respects this
/// lock too. The destructor releases it, and so does the system when the process dies.
class ContentLock {
 public:
  /// Waits until the lock is free. Logs every ten seconds what it waits for.
  explicit ContentLock(const std::filesystem::path& path);

 private:
  Descriptor file_;
};

class RepositoryCache {
 public:
  RepositoryCache(const std::string& id, const HubOptions& options);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// Returns the path of the content that a server calls `etag`. Throws NetworkError if `etag`
  /// cannot be a file's name.
  [[nodiscard]] std::filesystem::path blob(const std::string& etag) const;
  [[nodiscard]] std::filesystem::path snapshot(const std::string& commit) const;
  /// Returns the path of `file` in a snapshot. Throws ConfigError when `file` is not a safe path.
  [[nodiscard]] std::filesystem::path pointer(const std::string& commit,
                                              const std::string& file) const;
  /// Returns the commit that a branch or tag had when the hub was last asked; nullopt if unknown.
  [[nodiscard]] std::optional<std::string> commit_of(const std::string& revision) const;
  /// Returns `revision` itself if it is a commit, else commit_of().
  [[nodiscard]] std::optional<std::string> known_commit(const std::string& revision) const;

  /// Creates the folders for content and locks, and marks the cache for backup programs.
  void make_folders() const;
  [[nodiscard]] ContentLock lock(const std::string& etag) const;
  /// Makes `file` of `commit` a link to the content `etag`, which must be there.
  void link(const std::string& etag, const std::string& commit, const std::string& file) const;
  /// Stores the commit of a branch or tag. Does nothing if `revision` is a commit.
  void set_commit(const std::string& revision, const std::string& commit) const;
  /// Records that `commit` has no `file`: Transformers checks this when it is offline.
  void note_absence(const std::string& commit, const std::string& file) const;

 private:
  std::filesystem::path cache_;
  std::filesystem::path folder_;
};

}  // namespace accelerate::detail
