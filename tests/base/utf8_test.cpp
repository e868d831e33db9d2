#include "accelerate/base/utf8.h"

#include <gtest/gtest.h>

namespace accelerate {
namespace {

TEST(Utf8, TakesWellFormedTextOnly) {
  for (const char* good : {"", "ascii", "é", "漢字", "😀", "\u07ff\u0800\uffff", "\U0010ffff"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xe6\xbc"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(Utf8, WidthsAreThoseOfATerminal) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("é"), 1);
  EXPECT_EQ(display_width("e\u0301"), 1) << "a combining accent";
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("한국"), 4);
  EXPECT_EQ(display_width("😀"), 2);
  EXPECT_EQ(display_width("█▏│"), 3);
  EXPECT_EQ(display_width("\x1b[1;31mred\x1b[0m"), 3) << "colours take no column";
  EXPECT_EQ(display_width("\xff"), 1);
}

TEST(Utf8, FittingCutsBetweenCharacters) {
  EXPECT_EQ(fit_columns("漢字", 3), "漢");
  EXPECT_EQ(fit_columns("漢字", 4), "漢字");
  EXPECT_EQ(fit_columns("e\u0301x", 1), "e\u0301");
  EXPECT_EQ(fit_columns("abc", 0), "");
  EXPECT_EQ(fit_bytes("漢字", 5), "漢");
  EXPECT_EQ(fit_bytes("漢字", 6), "漢字");
  EXPECT_EQ(fit_bytes("漢字", 2), "");
}

TEST(Utf8, WrappingBreaksAtBlanksAndCutsLongWords) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("one  two", 80), (Lines{"one two"}));
  EXPECT_EQ(wrapped("a abcdefgh b", 3), (Lines{"a", "abc", "def", "gh", "b"}));
  EXPECT_EQ(wrapped("漢字漢 x", 4), (Lines{"漢字", "漢 x"}));
  EXPECT_EQ(wrapped("", 10), (Lines{""}));
}

}  // namespace
}  // namespace accelerate
