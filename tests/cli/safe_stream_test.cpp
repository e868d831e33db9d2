#include "cli/terminal/safe_stream.h"

#include <gtest/gtest.h>

#include <sstream>

namespace accelerate::cli {
namespace {

TEST(SafeStream, PassesTextAndNothingThatATerminalObeys) {
  std::ostringstream out;
  {
    const SafeStream safe(out);
    out << "é\x1b[2J\n" << 7 << '\a' << std::flush << "\u202e|";
  }
  EXPECT_EQ(out.str(), "é?[2J\n7??|");
  out << "\x1b";
  EXPECT_EQ(out.str(), "é?[2J\n7??|\x1b");
}

TEST(SafeStream, WaitsForTheRestOfACharacter) {
  std::ostringstream out;
  {
    const SafeStream safe(out);
    for (const char c : std::string("日本é\u202e\xe6\x97")) out << c;
  }
  EXPECT_EQ(out.str(), "日本é???");
}

}  // namespace
}  // namespace accelerate::cli
