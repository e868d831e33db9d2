// Checksums, which find damage, not malice: XXH3 of our manifests, CRC-32 of zip files and
// TensorBoard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace accelerate {

/// Returns the CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected) of `bytes`: the checksum of
/// TensorBoard's event files, of iSCSI and of ext4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Returns the CRC-32 (polynomial 0x04C11DB7, reflected) of `bytes`: the checksum of zip archives.
/// `before` is the checksum of the bytes ahead of `bytes`, so that a text may come in pieces.
[[nodiscard]] std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

/// Computes the XXH3-64 with seed 0 of bytes that arrive in pieces; how they are cut does not
/// matter. `xxhsum -H3` and Python's xxhash.xxh3_64 give the same value. Cost: about the speed of
/// memory; the object takes 600 bytes. Source: the xxHash library,
/// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes);
  /// Returns the checksum of all bytes so far; more may follow.
  [[nodiscard]] std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The XXH3-64 of `bytes`.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);
[[nodiscard]] std::uint64_t checksum(std::string_view bytes);

/// Writes `value` as manifests do: 16 lower-case hexadecimal digits, highest first.
[[nodiscard]] std::string checksum_text(std::uint64_t value);

}  // namespace accelerate
