// The files of a commit: what the hub wants to know of each before it takes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/hub/transfer/hub_client.h"
#include "accelerate/hub/upload.h"

namespace accelerate::detail {

struct CommitFile {
  const CommitOperationAdd* operation = nullptr;
  std::string path;              ///< In the repository.
  std::uint64_t size_bytes = 0;  ///< When it was first looked at.
  std::int64_t changed_ns = 0;   ///< Its time of change then; 0 for bytes.
  bool is_large = false;         ///< Goes by LFS.
  bool is_ignored = false;       ///< By the repository's .gitignore.
  std::string remote_oid = {};   ///< What the hub has at this path; "" for nothing.
  std::string oid = {};          ///< The SHA-256 of a large file, Git's name of a small one.
  bool is_deleted = false;       ///< The same commit takes out what the hub has at this path.

  /// Whether the commit has to name it.
  [[nodiscard]] bool is_wanted() const {
    const bool is_unchanged = !remote_oid.empty() && remote_oid == oid;
    return !is_ignored && (!is_unchanged || is_deleted);
  }
};

/// Looks at the files. Throws FileError for what cannot be read.
[[nodiscard]] std::vector<CommitFile> files_of(const std::vector<CommitOperation>& operations);

/// Asks the hub how each file is to be sent and what it has, 256 files a request, then computes
/// their checksums.
void ask_how_to_send(HubClient& client, const HubSubject& subject, bool create_pr,
                     std::vector<CommitFile>& files);

/// The whole content of a small file. Throws FileError when it changed meanwhile.
[[nodiscard]] std::string content_of(const CommitFile& file);

/// content_of(), which must be UTF-8. Throws ConfigError otherwise.
[[nodiscard]] std::string text_of(const CommitFile& file);

/// Throws FileError when the file is another than it was.
void check_unchanged(const CommitFile& file);

}  // namespace accelerate::detail
