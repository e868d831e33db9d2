#include "accelerate/base/checksum.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/reference.h"

namespace accelerate {
namespace {

// Byte i of the text that the golden rows hash.
std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * i + (i >> 8));
  return text;
}

TEST(Checksum, IsTheReferencesAtEveryLengthWhetherWholeOrInPieces) {
  const auto rows = nlohmann::json::parse(testing::read_reference("checksum.json"));
  for (const auto& row : rows) {
    const std::string text = pattern(row.at("size"));
    EXPECT_EQ(checksum_text(checksum(text)), row.at("xxh3_64")) << text.size();
    for (const std::size_t piece : {1U, 7U, 64U, 1000U}) {
      Checksum pieces;
      for (std::size_t at = 0; at < text.size(); at += piece) pieces.update(text.substr(at, piece));
      EXPECT_EQ(checksum_text(pieces.value()), row.at("xxh3_64")) << text.size() << " by " << piece;
    }
  }
  EXPECT_EQ(rows.size(), 45);
}

TEST(Checksum, AFlippedBitASwapAndAMissingByteChangeIt) {
  std::string text = pattern(5000);
  const std::uint64_t before = checksum(text);
  text[4999] ^= 1;
  EXPECT_NE(checksum(text), before);
  text[4999] ^= 1;
  std::swap(text[100], text[2000]);
  EXPECT_NE(checksum(text), before);
  EXPECT_NE(checksum(pattern(4999)), before);
}

TEST(Checksum, GoesOnAfterItsValueWasAsked) {
  Checksum sum;
  sum.update("one, ");
  EXPECT_EQ(sum.value(), checksum("one, "));
  sum.update("two");
  Checksum moved = std::move(sum);
  EXPECT_EQ(moved.value(), checksum("one, two"));
}

}  // namespace
}  // namespace accelerate
