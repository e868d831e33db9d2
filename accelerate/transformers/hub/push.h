// What push_to_hub() of models, tokenizers and datasets have in common.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/upload.h"

namespace accelerate {

struct PushToHubOptions {
  HubOptions hub = {};  ///< Its .type is set by the function that pushes.
  CommitOptions commit = {};
  std::optional<bool> is_private = {};  ///< For a repository that is created.
};

/// Returns `repo_id` with an owner. If it names none, the owner is the account of the token. Throws
/// what whoami() throws.
[[nodiscard]] std::string owned_repo_id(const std::string& repo_id, const HubOptions& options = {});

namespace detail {

/// What is pushed: the files that `write` puts into a temporary folder.
struct Push {
  std::string what;  ///< "model", for the commit's message.
  std::function<void(const std::filesystem::path& folder)> write;
  /// The text of README.md for a repository without one; if empty, none is written.
  std::string card = {};
  std::vector<std::string> replaces = {};  ///< Patterns of files to remove unless written.
};

/// Creates the repository if there is none and commits the files. The temporary folder is removed,
/// also after a failure.
CommitInfo push(const std::string& repo_id, const Push& push, const PushToHubOptions& options);

}  // namespace detail
}  // namespace accelerate
