// Uploads large files into the hub's store by Git LFS, whole or in parts.
#pragma once

#include <vector>

#include "accelerate/transformers/hub/transfer/commit_files.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {

/// Sends the large files among `files` that are not ignored and that the store lacks.
/// HubOptions::max_workers files are sent at the same time. If a part fails, only this part is sent
/// again. Throws NetworkError with the file's name.
void upload_large_files(HubClient& client, const HubSubject& subject,
                        const std::vector<CommitFile>& files);

}  // namespace accelerate::detail
