#include "accelerate/base/untrusted_text.h"

#include <gtest/gtest.h>

namespace accelerate::detail {
namespace {

TEST(UntrustedText, HasNothingThatATerminalObeys) {
  EXPECT_EQ(untrusted_text("plain é\n\t"), "plain é\n\t");
  EXPECT_EQ(untrusted_text("\x1b[31mred\a\x7f"), "?[31mred??");
  EXPECT_EQ(untrusted_text("\u009b;m"), "\u00a0;m");
  EXPECT_EQ(untrusted_text("\xff\x9b"), "??");
}

TEST(UntrustedText, IsNotLongerThanAsked) {
  EXPECT_EQ(untrusted_text("abcdef", 3), "abc…");
  EXPECT_EQ(untrusted_text("aé", 2), "a…");
}

}  // namespace
}  // namespace accelerate::detail
