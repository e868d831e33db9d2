// What the launcher reads of the file in which a rank says what ended it.
#include "accelerate/launch/output/error_report.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/support.h"

namespace accelerate {
namespace {

class ErrorReport : public ::testing::Test {
 protected:
  std::string read(const std::string& text) {
    return detail::read_error_report(folder_.write("error.json", text));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ErrorReport, IsTheMessageOfTheFile) {
  EXPECT_EQ(read(R"({"message": {"message": "ValueError: no", "extraInfo": {"timestamp": "1"}}})"),
            "ValueError: no");
  EXPECT_EQ(read(R"({"message": "old form"})"), "old form");
  EXPECT_EQ(read(R"({"message": {"message": "a\nb\nc"}})"), "a\n    b\n    c");
  EXPECT_EQ(read(R"({"message": {"message": "no\nException raised from f at g.cpp:1"}})"), "no");
}

TEST_F(ErrorReport, IsSafeToPrintAndShort) {
  EXPECT_EQ(read("{\"message\": {\"message\": \"\\u001b[31mred \\u202e\"}}"), "?[31mred ?");
  const auto message = read("{\"message\": \"" + std::string(5000, 'x') + "\"}");
  EXPECT_TRUE(message.starts_with("xxx"));
  EXPECT_LT(message.size(), 1010U);
}

TEST_F(ErrorReport, IsEmptyForAnythingElse) {
  for (const std::string text :
       {"", "{", "[]", "3", R"({"message": 3})", R"({"message": {"message": {}}})",
        R"({"message": {"message": null}})", R"({"other": "x"})", R"({"message": "a"} x)"}) {
    EXPECT_EQ(read(text), "") << text;
  }
  EXPECT_EQ(read(std::string(2'000'000, '[')), "");
  EXPECT_EQ(read("{\"message\": \"" + std::string(2'000'000, 'x') + "\"}"), "");
  EXPECT_EQ(read(R"({"message": )" + std::string(500'000, '[') + std::string(500'000, ']') + "}"),
            "");
  EXPECT_EQ(detail::read_error_report(folder_.path() / "absent"), "");
  EXPECT_EQ(detail::read_error_report(folder_.path()), "");
  EXPECT_EQ(detail::read_error_report(""), "");
}

// A rank may put what it likes in the place of its file.
TEST_F(ErrorReport, FollowsNoLinkAndWaitsForNoPipe) {
  const auto file = folder_.write("secret", R"({"message": "secret"})");
  std::filesystem::create_symlink(file, folder_.path() / "link");
  EXPECT_EQ(detail::read_error_report(folder_.path() / "link"), "");
  ASSERT_EQ(mkfifo((folder_.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(detail::read_error_report(folder_.path() / "pipe"), "");
}

}  // namespace
}  // namespace accelerate
