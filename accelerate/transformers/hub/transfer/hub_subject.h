// What a request to the hub is about: a repository, a revision of it, a file in it.
#pragma once

#include <string>

#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail {

/// What a request is about, for messages.
struct HubSubject {
  std::string id = {};  ///< "" for requests without a repository.
  RepoType type = RepoType::model;
  std::string revision = {};
  std::string file = {};
};

/// Throws ConfigError when `repo_id` is not an id or HubOptions::revision is not a safe path.
[[nodiscard]] HubSubject checked_subject(const std::string& repo_id, const HubOptions& options);

}  // namespace accelerate::detail
