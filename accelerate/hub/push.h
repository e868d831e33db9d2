// What push_to_hub() of models, tokenizers and datasets has in common.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/hub/upload.h"

namespace accelerate {

struct PushToHubOptions {
  HubOptions hub = {};  ///< Its .type is set by what is pushed.
  CommitOptions commit = {};
  std::optional<bool> is_private = {};  ///< Of a repository that is made.
};

/// Returns `repo_id` with an owner: the account of the token where it names none. Throws what
/// whoami() throws.
[[nodiscard]] std::string owned_repo_id(const std::string& repo_id, const HubOptions& options = {});

namespace detail {

/// What goes to the hub: files that `write` puts into a folder, which is temporary.
struct Push {
  std::string what;  ///< "model", for the commit's message.
  std::function<void(const std::filesystem::path& folder)> write;
  /// The text of README.md for a repository that has none; none is written when empty.
  std::string card = {};
  std::vector<std::string> replaces = {};  ///< Patterns of files there that go, unless written.
};

/// Makes the repository if there is none and commits the files. The folder is removed, also after a
/// failure.
CommitInfo push(const std::string& repo_id, const Push& push, const PushToHubOptions& options);

}  // namespace detail
}  // namespace accelerate
