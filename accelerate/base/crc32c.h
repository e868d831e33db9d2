// CRC-32C, the checksum of TensorBoard's event files, of iSCSI and of ext4.
#pragma once

#include <cstdint>
#include <string_view>

namespace accelerate {

/// The CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected) of `bytes`. Cost: about 1.5 ns a byte.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

}  // namespace accelerate
