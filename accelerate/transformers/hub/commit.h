// What a commit to a repository of Hugging Face's hub changes, how it is described, and its result.
#pragma once

#include <filesystem>
#include <string>
#include <variant>

namespace accelerate {

/// Adds a file to a commit: a file on the disk, or bytes.
struct CommitOperationAdd {
  std::string path_in_repo;
  std::variant<std::filesystem::path, std::string> content;  ///< A path, or the bytes themselves.
};

/// Removes a file, or a folder with all its files, from the repository.
struct CommitOperationDelete {
  std::string path_in_repo;  ///< The path of a folder ends in '/'.
};

using CommitOperation = std::variant<CommitOperationAdd, CommitOperationDelete>;

struct CommitOptions {
  std::string commit_message = {};  ///< The first line; if empty, each function has a default.
  std::string commit_description = {};
  /// The newest commit must be this one (5 to 40 hex digits), else HubReason::conflict.
  std::string parent_commit = {};
  bool create_pr = false;  ///< Opens a pull request instead of changing the revision.
};

struct CommitInfo {
  std::string commit_url;
  std::string oid;          ///< Id of the commit.
  std::string pr_url = {};  ///< "" unless CommitOptions::create_pr.
  bool is_new = true;       ///< False if nothing changed and no commit was made.
};

}  // namespace accelerate
