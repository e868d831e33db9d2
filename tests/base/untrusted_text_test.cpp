#include "accelerate/base/untrusted_text.h"

#include <gtest/gtest.h>

namespace accelerate::detail {
namespace {

TEST(UntrustedText, HasNothingThatATerminalObeys) {
  EXPECT_EQ(untrusted_text("plain é 日本 \U0001F600\n\t"), "plain é 日本 \U0001F600\n\t");
  EXPECT_EQ(untrusted_text("\x1b[31mred\a\x7f"), "?[31mred??");
  EXPECT_EQ(untrusted_text("\u009b;m\u0080"), "?;m?");
  EXPECT_EQ(untrusted_text("a\xff\x9b é"), "a?? é");
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
                           "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"})
    EXPECT_EQ(untrusted_text(std::string("a") + mark + "b"), "a?b") << mark;
}

TEST(UntrustedText, KeepsJoinersOfScriptsAndEmoji) {
  EXPECT_EQ(untrusted_text("\u200c\u200d"), "\u200c\u200d");
}

TEST(UntrustedText, IsOneLineOnDemand) {
  EXPECT_EQ(untrusted_line("a\nb\tc"), "a?b?c");
}

TEST(UntrustedText, IsNotLongerThanAsked) {
  EXPECT_EQ(untrusted_text("abcdef", 3), "abc…");
  EXPECT_EQ(untrusted_text("aé", 2), "a…");
  EXPECT_EQ(untrusted_text("aé", 3), "aé");
}

}  // namespace
}  // namespace accelerate::detail
