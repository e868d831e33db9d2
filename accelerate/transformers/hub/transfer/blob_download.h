// Downloads one content into the cache. Continues where an earlier attempt stopped, and checks the
// content against the name that the hub gave it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {

struct BlobSource {
  HubSubject subject;
  std::string url;
  std::string etag;  ///< 64 digits: SHA-256. 40: Git's name. Others are no checksum.
  std::optional<std::uint64_t> size_bytes;  ///< nullopt if the server did not say yet.
};

/// Called with the number of bytes that were added; negative if the download starts over.
using ByteProgress = std::function<void(std::int64_t bytes)>;

/// Downloads the content of `source` to the file `blob`, which appears either completely or not at
/// all. Until then the content is in the file `blob`.incomplete, where the next call continues. The
/// caller must hold the content's lock.
///
/// Throws HubError and NetworkError after HubOptions::max_retries without a new MiB. Throws
/// NetworkError too for content that is longer or shorter than promised, or has another checksum.
/// Such content is first downloaded once more. Throws FileError, with the sizes, when the disk is
/// full.
///
/// If `size_bytes` is unknown, the answer's own length is the promise. Without any length the
/// content must have the checksum, and may have 256 MiB and half of the disk's free room. Without
/// length and checksum it is refused.
///
/// Memory: one MiB. Cost: one pass over the network, one write and one checksum of each byte.
void download_blob(HubClient& client, const BlobSource& source, const std::filesystem::path& blob,
                   const ByteProgress& progress);

}  // namespace accelerate::detail
