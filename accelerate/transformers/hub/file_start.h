// The first bytes of a file on the hub: reads a header without the rest.
#pragma once

#include <cstddef>
#include <string>

#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

/// Returns the first `bytes` of `filename` in the repository `repo_id`, or fewer if the file is
/// shorter. A file in the cache is read without a request. Nothing is added to the cache. Throws
/// what hf_hub_download() throws. Cost: one request, and another if the content is on another host.
[[nodiscard]] std::string read_file_start(const std::string& repo_id, const std::string& filename,
                                          std::size_t bytes, const HubOptions& options);

}  // namespace accelerate
