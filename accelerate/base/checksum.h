// XXH3, the checksum of our manifests: it finds damage, not malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace accelerate {

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
