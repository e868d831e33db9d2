// The first bytes of a file on the hub: what its header says, without the rest.
#pragma once

#include <cstddef>
#include <string>

#include "accelerate/hub/repository.h"

namespace accelerate {

/// Returns the first `bytes` of `filename` in the repository `repo_id`, fewer where it has fewer;
/// of a file in the cache without a request. Nothing goes into the cache. Throws what
/// hf_hub_download() throws. Cost: one request, and another where the content is elsewhere.
[[nodiscard]] std::string read_file_start(const std::string& repo_id, const std::string& filename,
                                          std::size_t bytes, const HubOptions& options = {});

}  // namespace accelerate
