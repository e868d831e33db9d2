#include "accelerate/base/keyed_checksum.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/reference.h"

namespace accelerate {
namespace {

std::string digits_of(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) {
    digits += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    digits += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return digits;
}

TEST(KeyedChecksum, IsOpenSslsAtEveryLength) {
  const auto rows = nlohmann::json::parse(testing::read_reference("keyed_checksum.json"));
  for (const auto& row : rows) {
    std::string text(row.at("length").get<std::size_t>(), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i);
    const auto key = key_from_digits(row.at("key").get<std::string>());
    ASSERT_TRUE(key);
    EXPECT_EQ(digits_of(keyed_checksum(*key, text)), row.at("sum")) << row;
  }
  EXPECT_EQ(rows.size(), 39);
}

TEST(KeyedChecksum, KeysAreThirtyTwoHexadecimalDigits) {
  EXPECT_EQ((*key_from_digits("000102030405060708090A0b0c0d0eFf"))[15], 0xff);
  for (const char* text : {"", "00", "000102030405060708090a0b0c0d0e0", "000102030405060708090a0b0c0d0e0g",
                           "000102030405060708090a0b0c0d0e0f0"}) {
    EXPECT_FALSE(key_from_digits(text)) << text;
  }
}

TEST(KeyedChecksum, RandomDigitsAreAKeyAndNeverTheSame) {
  const auto one = random_digits(), other = random_digits();
  ASSERT_TRUE(one && other);
  EXPECT_TRUE(key_from_digits(*one));
  EXPECT_NE(*one, *other);
}

TEST(KeyedChecksum, ComparesWholeTexts) {
  EXPECT_TRUE(equal_in_constant_time("ab", "ab"));
  EXPECT_FALSE(equal_in_constant_time("ab", "ac"));
  EXPECT_FALSE(equal_in_constant_time("ab", "abc"));
}

}  // namespace
}  // namespace accelerate
