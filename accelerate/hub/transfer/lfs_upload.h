// Large files into the hub's store, by Git LFS: whole, or in parts.
#pragma once

#include <vector>

#include "accelerate/hub/transfer/commit_files.h"
#include "accelerate/hub/transfer/hub_client.h"

namespace accelerate::detail {

/// Sends those of `files` that are large, not ignored, and that the store lacks;
/// HubOptions::max_workers at once. A part that fails is sent again alone. Throws NetworkError with
/// the file's name.
void upload_large_files(HubClient& client, const HubSubject& subject,
                        const std::vector<CommitFile>& files);

}  // namespace accelerate::detail
