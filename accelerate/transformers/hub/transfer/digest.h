// The checksums that the hub uses as names of contents.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Computes a checksum of bytes that arrive piece by piece.
class Digest {
 public:
  virtual ~Digest() = default;
  virtual void update(std::string_view bytes) = 0;
  /// Returns the checksum in lower-case hexadecimal digits. Call it once, at the end.
  [[nodiscard]] virtual std::string hex() = 0;
};

/// Makes a SHA-256 (64 digits), the name of large files. Returns null unless why_no_digest() is "".
[[nodiscard]] std::unique_ptr<Digest> make_sha256();
/// Makes Git's name of a file of `size_bytes` (40 digits): the SHA-1 of "blob <size>\0" and the
/// content.
[[nodiscard]] std::unique_ptr<Digest> make_git_sha1(std::uint64_t size_bytes);
/// Returns why this build or this system has no digests, with a remedy; "" if it has them.
[[nodiscard]] std::string why_no_digest();

}  // namespace accelerate::detail
