// Checksums of 32 bits. Cost: about 1.5 ns a byte.
#pragma once

#include <cstdint>
#include <string_view>

namespace accelerate {

/// Returns the CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected) of `bytes`: the checksum of
/// TensorBoard's event files, of iSCSI and of ext4.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Returns the CRC-32 (polynomial 0x04C11DB7, reflected) of `bytes`: the checksum of zip archives.
/// `before` is the checksum of the bytes ahead of `bytes`, so that a text may come in pieces.
[[nodiscard]] std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

}  // namespace accelerate
