// The checksums by which the hub names content.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// A checksum of bytes that come piece by piece.
class Digest {
 public:
  virtual ~Digest() = default;
  virtual void update(std::string_view bytes) = 0;
  /// Lower-case hexadecimal digits. Call it once, at the end.
  [[nodiscard]] virtual std::string hex() = 0;
};

/// SHA-256, 64 digits: the name of large files. Null where why_no_digest() is not "".
[[nodiscard]] std::unique_ptr<Digest> make_sha256();
/// Git's name of a file of `size_bytes`, 40 digits: the SHA-1 of "blob <size>\0" and the content.
[[nodiscard]] std::unique_ptr<Digest> make_git_sha1(std::uint64_t size_bytes);
/// Why this build or this system has no digests, with the cure; "" where it has.
[[nodiscard]] std::string why_no_digest();

}  // namespace accelerate::detail
