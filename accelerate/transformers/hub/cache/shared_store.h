// Contents that several repositories of a cache share.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/transformers/hub/cache/cache_files.h"

namespace accelerate::detail {

/// The folder <cache>/blobs with the shared contents. Source: `utils/_shared_blobs.py`.
class SharedStore {
 public:
  explicit SharedStore(std::filesystem::path cache);
  /// Whether the folder exists and has the marker of such a store.
  [[nodiscard]] bool exists() const { return exists_; }
  /// Returns the shared content that the repository's `blob` links to; nullopt if it is not such a
  /// link.
  [[nodiscard]] std::optional<std::filesystem::path> content_of(
      const std::filesystem::path& blob) const;
  [[nodiscard]] cache_files::Paths contents() const;
  /// Returns the bytes that are freed with `content` when all of `removed` are gone.
  [[nodiscard]] std::uint64_t freed_bytes(
      const std::filesystem::path& content,
      const std::map<std::filesystem::path, std::uint64_t>& removed) const;
  /// Removes `content` if no repository links to it. Keeps it if that is not certain.
  void sweep(const std::filesystem::path& content, FileSystem& files) const;

 private:
  [[nodiscard]] std::filesystem::path marker() const {
    return folder_ / ".huggingface-shared-blobs";
  }
  [[nodiscard]] static std::optional<std::string> text_of(const std::filesystem::path& file);
  [[nodiscard]] bool is_blob_of_repo(const std::filesystem::path& path) const;
  [[nodiscard]] bool is_content_path(const std::filesystem::path& path) const;
  [[nodiscard]] std::optional<std::filesystem::path> link_of(const std::filesystem::path& blob,
                                                             std::error_code& error) const;
  [[nodiscard]] std::optional<cache_files::Paths> references(
      const std::filesystem::path& content) const;

  std::filesystem::path cache_;
  std::filesystem::path folder_;
  bool exists_ = false;
};

}  // namespace accelerate::detail
