// Fetches one content into the cache: goes on where an earlier attempt stopped, and checks what
// arrived against the name that the hub gave it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "accelerate/hub/transfer/hub_client.h"

namespace accelerate::detail {

struct BlobSource {
  HubSubject subject;
  std::string url;
  std::string etag;  ///< 64 digits are a SHA-256, 40 are Git's name; others are not checked.
  std::optional<std::uint64_t> size_bytes;  ///< Unknown where the server does not say.
};

/// Called with the bytes that a call added; negative where what was there begins anew.
using ByteProgress = std::function<void(std::int64_t bytes)>;

/// Writes the content of `source` to the file `blob`, which appears whole or not at all. Until then
/// it is in the file `blob`.incomplete, where the next call goes on. The caller holds the content's
/// lock. Throws HubError and NetworkError after HubOptions::max_retries without a new byte, also
/// for content that is longer than promised, shorter, or has another checksum (twice: the first
/// time it is fetched anew); FileError, with the sizes, for a disk that is full.
/// Memory: half a MiB. Cost: one pass over the network, one write and one checksum of each byte.
void download_blob(HubClient& client, const BlobSource& source, const std::filesystem::path& blob,
                   const ByteProgress& progress);

}  // namespace accelerate::detail
