// One repository's folder in the cache, for those who fill it. The layout is in hub/cache/cache.h.
//
// Whatever instant a process is killed at, readers see whole files only: content is written beside
// its place, under a name that ends in ".incomplete", and links are made to content that is there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/hub/repository.h"

namespace accelerate::detail {

/// Keeps others from fetching the same content: Python's huggingface_hub honours it too. Given back
/// by the destructor, and by the system when the process dies.
class ContentLock {
 public:
  /// Waits until the lock is free. After ten seconds it logs what it waits for.
  explicit ContentLock(const std::filesystem::path& path);

 private:
  Descriptor file_;
};

class RepositoryCache {
 public:
  RepositoryCache(const std::string& id, const HubOptions& options);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// The content that a server calls `etag`. Throws NetworkError for what is no plain name.
  [[nodiscard]] std::filesystem::path blob(const std::string& etag) const;
  [[nodiscard]] std::filesystem::path snapshot(const std::string& commit) const;
  /// Throws ConfigError when `file` is no safe path.
  [[nodiscard]] std::filesystem::path pointer(const std::string& commit,
                                              const std::string& file) const;
  /// The commit of a branch or tag as it was when last asked for; nullopt if unknown.
  [[nodiscard]] std::optional<std::string> commit_of(const std::string& revision) const;
  /// commit_of(), or `revision` itself where it is a commit.
  [[nodiscard]] std::optional<std::string> known_commit(const std::string& revision) const;

  /// Makes the folders that content and locks go to, and marks the cache for backup programs.
  void make_folders() const;
  [[nodiscard]] ContentLock lock(const std::string& etag) const;
  /// Makes `file` of `commit` a link to the content `etag`, which is there.
  void link(const std::string& etag, const std::string& commit, const std::string& file) const;
  /// Remembers what a branch or tag means. Nothing to do where `revision` is a commit.
  void set_commit(const std::string& revision, const std::string& commit) const;
  /// Remembers that `commit` has no `file`: Transformers asks for it when offline.
  void note_absence(const std::string& commit, const std::string& file) const;

 private:
  std::filesystem::path cache_;
  std::filesystem::path folder_;
};

}  // namespace accelerate::detail
