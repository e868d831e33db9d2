// Models and datasets into repositories of Hugging Face's hub: a commit at a time, large files by
// Git LFS. What the hub has already is not sent again, so that an upload that was interrupted goes
// on with the files that are missing.
//
//   create_repo("me/bert-finetuned", {}, {.exist_ok = true});
//   upload_folder("me/bert-finetuned", "out");
//
// Errors: as in hub/download.h. Threads: any number at once.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/hub/patterns.h"
#include "accelerate/hub/repository.h"

namespace accelerate {

struct CreateRepoOptions {
  std::optional<bool> is_private = {};  ///< The account's or organization's default when unset.
  bool exist_ok = false;                ///< One that exists is none too many.
};

/// Makes an empty repository and returns its URL. Throws HubError with HubReason::conflict when it
/// exists and CreateRepoOptions::exist_ok is false.
std::string create_repo(const std::string& repo_id, const HubOptions& options = {},
                        const CreateRepoOptions& create = {});

/// Puts a file into a commit: one on the disk, or bytes.
struct CommitOperationAdd {
  std::string path_in_repo;
  std::variant<std::filesystem::path, std::string> content;  ///< A path, or the bytes themselves.
};

/// Takes a file, or a folder with all that is in it, out of the repository.
struct CommitOperationDelete {
  std::string path_in_repo;  ///< A folder's ends in '/'.
};

using CommitOperation = std::variant<CommitOperationAdd, CommitOperationDelete>;

struct CommitOptions {
  std::string commit_message = {};  ///< The first line; each function has its own when empty.
  std::string commit_description = {};
  /// The newest commit must be this one (5 to 40 hex digits), else HubReason::conflict.
  std::string parent_commit = {};
  bool create_pr = false;  ///< Opens a pull request instead of changing the revision.
};

struct CommitInfo {
  std::string commit_url;
  std::string oid;          ///< The commit's.
  std::string pr_url = {};  ///< "" unless CommitOptions::create_pr.
  bool is_new = true;       ///< False when nothing had changed and no commit was made.
};

/// Changes the branch HubOptions::revision by one commit. Files whose content the hub has at their
/// path are left out; without a change there is no commit, and the newest one is returned. A file
/// that changes while it is sent is an error. When the answer to the commit is lost, the hub is
/// asked whether it was made. Throws ConfigError for paths that leave the repository, two
/// operations on one path, an empty message, and a model card that the hub finds invalid.
/// Memory: small files of the commit, up to 10 MiB each. Cost: reads large files twice, the first
/// time for their checksum.
CommitInfo create_commit(const std::string& repo_id, const std::vector<CommitOperation>& operations,
                         const HubOptions& options, const CommitOptions& commit);

/// create_commit() of one file. The message is "Upload <path_in_repo>".
CommitInfo upload_file(const std::string& repo_id, const CommitOperationAdd& file,
                       const HubOptions& options = {}, const CommitOptions& commit = {});

struct UploadFolderOptions {
  std::string path_in_repo = {};                  ///< A folder there; its root when empty.
  FilePatterns patterns = {};                     ///< By the paths below the folder.
  std::vector<std::string> delete_patterns = {};  ///< Files there that go, unless they are sent.
  CommitOptions commit = {};
};

/// create_commit() of the files below `folder`, links followed, without ".git" and
/// ".cache/huggingface". The message is "Upload folder". Source: `upload_folder` of
/// huggingface_hub.
CommitInfo upload_folder(const std::string& repo_id, const std::filesystem::path& folder,
                         const HubOptions& options = {}, const UploadFolderOptions& upload = {});

/// Uploads in the background, one after the other in the order in which they were asked for. The
/// destructor waits for them.
class BackgroundUploads {
 public:
  BackgroundUploads();
  ~BackgroundUploads();
  BackgroundUploads(const BackgroundUploads&) = delete;
  BackgroundUploads& operator=(const BackgroundUploads&) = delete;

  /// upload_folder(). The folder must not change until the future is ready; the future throws what
  /// the upload throws.
  std::future<CommitInfo> upload_folder(std::string repo_id, std::filesystem::path folder,
                                        HubOptions options = {}, UploadFolderOptions upload = {});
  /// Whether none is under way and none waits.
  [[nodiscard]] bool is_idle() const;
  /// Returns when none is under way and none waits.
  void wait();

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};

}  // namespace accelerate
