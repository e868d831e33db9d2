#include "accelerate/base/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace accelerate {
namespace {

// Source of the values: RFC 3720 (iSCSI), appendix B.4, and the check value of the algorithm.
TEST(Crc32c, HasTheValuesOfItsStandard) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c(falling), 0x113FDB5Cu);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

// Four bytes go through at once: every remainder must do as well.
TEST(Crc32c, TakesTextsOfAnyLength) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("a"), 0xC1D04330u);
  EXPECT_NE(crc32c("abc"), crc32c("abcd"));
  EXPECT_NE(crc32c(std::string("abcd\0", 5)), crc32c("abcd"));
}

// Source of the value: the check value of the algorithm, "CRC-32/ISO-HDLC".
TEST(Crc32, IsTheChecksumOfZipArchivesAlsoOfATextInPieces) {
  EXPECT_EQ(crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(crc32("6789", crc32("12345")), crc32("123456789"));
  EXPECT_EQ(crc32(""), 0u);
}

}  // namespace
}  // namespace accelerate
