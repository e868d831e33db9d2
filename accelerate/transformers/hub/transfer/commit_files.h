// The files of a commit, and what the hub must know about each before it accepts them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/commit.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {

struct CommitFile {
  const CommitOperationAdd* operation = nullptr;
  std::string path;              ///< Path in the repository.
  std::uint64_t size_bytes = 0;  ///< Size when the file was first looked at.
  std::int64_t changed_ns = 0;   ///< Change time at that moment; 0 for bytes.
  bool is_large = false;         ///< Whether the file is sent by LFS.
  bool is_ignored = false;       ///< Whether the repository's .gitignore excludes it.
  std::string remote_oid = {};   ///< Content on the hub at this path; "" for none.
  std::string oid = {};          ///< SHA-256 of a large file, Git's name of a small one.
  bool is_deleted = false;       ///< Whether this commit also deletes this path.

  /// Whether the commit must contain the file.
  [[nodiscard]] bool is_wanted() const {
    const bool is_unchanged = !remote_oid.empty() && remote_oid == oid;
    return !is_ignored && (!is_unchanged || is_deleted);
  }
};

/// Looks at the files and returns them. Throws FileError for a file that cannot be read.
[[nodiscard]] std::vector<CommitFile> files_of(const std::vector<CommitOperation>& operations);

/// Asks the hub how to send each file and which content it already has, 256 files a request. Then
/// computes the checksums of the files.
void ask_how_to_send(HubClient& client, const HubSubject& subject, bool create_pr,
                     std::vector<CommitFile>& files);

/// Returns the whole content of a small file. Throws FileError when the file has changed since
/// files_of().
[[nodiscard]] std::string content_of(const CommitFile& file);

/// Returns content_of(). Throws ConfigError if it is not UTF-8.
[[nodiscard]] std::string text_of(const CommitFile& file);

/// Throws FileError when the file has changed since files_of().
void check_unchanged(const CommitFile& file);

// Uploads large files into the hub's store by Git LFS, whole or in parts.

/// Sends the large files among `files` that are not ignored and that the store lacks.
/// HubOptions::max_workers files are sent at the same time. If a part fails, only this part is sent
/// again. Throws NetworkError with the file's name.
void upload_large_files(HubClient& client, const HubSubject& subject,
                        const std::vector<CommitFile>& files);

}  // namespace accelerate::detail
