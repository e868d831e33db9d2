// Uploads models and datasets to repositories of Hugging Face's hub, one commit at a time, large
// files by Git LFS. Content that the hub already has is not sent again, so an interrupted upload
// continues with the missing files.
//
//   create_repo("me/bert-finetuned", {}, {.exist_ok = true});
//   upload_folder("me/bert-finetuned", "out");
//
// Errors: as in hub/download.h. Threads: any number at the same time.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/commit.h"
#include "accelerate/transformers/hub/patterns.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

struct CreateRepoOptions {
  std::optional<bool> is_private = {};  ///< The account's or organization's default when unset.
  bool exist_ok = false;                ///< Accepts a repository that already exists.
};

/// Creates an empty repository and returns its URL. Throws HubError with HubReason::conflict when
/// it already exists and CreateRepoOptions::exist_ok is false.
std::string create_repo(const std::string& repo_id, const HubOptions& options = {},
                        const CreateRepoOptions& create = {});

/// Changes the branch HubOptions::revision with one commit. Files that the hub already has, with
/// equal content at the same path, are left out. If nothing changes, no commit is made, and the
/// newest commit is returned. If the answer to the commit is lost, the hub is asked whether the
/// commit was made.
///
/// Throws ConfigError for paths that leave the repository, two operations on one path, an empty
/// message, and a model card that the hub finds invalid. Throws FileError for a file that changes
/// while it is sent. Memory: the small files of the commit, at most 64 MiB each; the hub asks for
/// LFS beyond 10 MiB. Cost: reads large files twice, the first time for their checksum.
CommitInfo create_commit(const std::string& repo_id, const std::vector<CommitOperation>& operations,
                         const HubOptions& options, const CommitOptions& commit);

/// Calls create_commit() for one file. The default message is "Upload <path_in_repo>".
CommitInfo upload_file(const std::string& repo_id, const CommitOperationAdd& file,
                       const HubOptions& options = {}, const CommitOptions& commit = {});

struct UploadFolderOptions {
  std::string path_in_repo = {};                  ///< A folder in the repository; "" for its root.
  FilePatterns patterns = {};                     ///< Match the paths below the folder.
  std::vector<std::string> delete_patterns = {};  ///< Remote files to delete unless sent.
  CommitOptions commit = {};
};

/// Calls create_commit() for the files below `folder`, links followed, without ".git" and
/// ".cache/huggingface". The default message is "Upload folder". Source: `upload_folder` of
/// huggingface_hub.
CommitInfo upload_folder(const std::string& repo_id, const std::filesystem::path& folder,
                         const HubOptions& options = {}, const UploadFolderOptions& upload = {});

/// Uploads in the background, one upload after the other, in the order of the calls. The destructor
/// waits for all of them.
class BackgroundUploads {
 public:
  BackgroundUploads();
  ~BackgroundUploads();
  BackgroundUploads(const BackgroundUploads&) = delete;
  BackgroundUploads& operator=(const BackgroundUploads&) = delete;

  /// Calls accelerate::upload_folder() in the background. The folder must not change until the
  /// future is ready. The future throws what the upload throws.
  std::future<CommitInfo> upload_folder(std::string repo_id, std::filesystem::path folder,
                                        HubOptions options = {}, UploadFolderOptions upload = {});
  /// Whether no upload is running or waiting.
  [[nodiscard]] bool is_idle() const;
  /// Waits until no upload is running or waiting.
  void wait();

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};

}  // namespace accelerate
