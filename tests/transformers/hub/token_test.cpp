#include "accelerate/transformers/hub/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/transformers/hub/hub_support.h"

namespace accelerate {
namespace {

using testing::message_of;

namespace fs = std::filesystem;

class HubToken : public testing::HubEnvironment {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path() / name) << content;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(folder_.path() / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] unsigned mode(const std::string& name) const {
    struct stat status{};
    ::stat((folder_.path() / name).c_str(), &status);
    return status.st_mode & 0777U;
  }

  testing::TemporaryFolder folder_;
  testing::ScopedEnv home_here_{"HF_HOME", folder_.path().c_str()};
  testing::ScopedEnv token_{"HF_TOKEN", nullptr};
  testing::ScopedEnv legacy_token_{"HUGGING_FACE_HUB_TOKEN", nullptr};
  testing::ScopedEnv path_{"HF_TOKEN_PATH", nullptr};
  testing::ScopedEnv implicit_{"HF_HUB_DISABLE_IMPLICIT_TOKEN", nullptr};
};

TEST_F(HubToken, IsNoneWithoutVariableAndFile) {
  EXPECT_EQ(get_token(), std::nullopt);
}

TEST_F(HubToken, ComesFromTheFileWithoutItsLineEnd) {
  write("token", " hf_a\r\n");
  EXPECT_EQ(get_token(), "hf_a");
}

TEST_F(HubToken, VariableWinsOverTheFile) {
  write("token", "hf_a");
  const testing::ScopedEnv token("HF_TOKEN", "hf_b\n");
  EXPECT_EQ(get_token(), "hf_b");
}

TEST_F(HubToken, EmptyVariableDoesNotCount) {
  write("token", "hf_a");
  const testing::ScopedEnv token("HF_TOKEN", "");
  EXPECT_EQ(get_token(), "hf_a");
}

TEST_F(HubToken, WithASpaceIsRefusedWithoutShowingIt) {
  const testing::ScopedEnv token("HF_TOKEN", "hf_secret x");
  const std::string message = message_of<ConfigError>([] { (void)get_token(); });
  EXPECT_TRUE(contains(message, "HF_TOKEN holds a space")) << message;
  EXPECT_FALSE(contains(message, "secret")) << message;
}

TEST_F(HubToken, SavesForItsOwnerAlone) {
  save_token("hf_a", "mine");
  EXPECT_EQ(read("token"), "hf_a");
  EXPECT_EQ(read("stored_tokens"), "[mine]\nhf_token = hf_a\n\n");
  EXPECT_EQ(mode("token"), 0600U);
  EXPECT_EQ(mode("stored_tokens"), 0600U);
}

TEST_F(HubToken, KeepsOtherStoredTokensWithAllTheirFields) {
  write("stored_tokens", "[oauth-me]\nhf_token = hf_o\nrefresh_token = r%\nexpires_at = 5\n\n");
  save_token("hf_a", "mine");
  EXPECT_EQ(read("stored_tokens"),
            "[mine]\nhf_token = hf_a\n\n[oauth-me]\nhf_token = hf_o\nrefresh_token = "
            "r%\nexpires_at = 5\n\n");
}

TEST_F(HubToken, ForgetsTheActiveOneAlone) {
  save_token("hf_a", "one");
  save_token("hf_b", "two");
  EXPECT_TRUE(forget_token());
  EXPECT_EQ(get_token(), std::nullopt);
  EXPECT_EQ(read("stored_tokens"), "[one]\nhf_token = hf_a\n\n");
  EXPECT_FALSE(forget_token());
}

TEST_F(HubToken, ForgetsEntriesThatAreWrittenOtherwise) {
  write("token", "hf_a");
  write("stored_tokens", "[one]\nHF_Token=hf_a\n\n[two]\nhf_token: hf_b\n");
  EXPECT_TRUE(forget_token());
  EXPECT_EQ(read("stored_tokens"), "[two]\nhf_token: hf_b\n\n");
}

TEST_F(HubToken, RefusesNamesThatWouldBreakTheFile) {
  for (const char* name : {"", "a]b", "a\nb", "default"})
    EXPECT_THROW(save_token("hf_a", name), ConfigError) << name;
  EXPECT_FALSE(fs::exists(folder_.path() / "token"));
}

TEST_F(HubToken, IsNotSentUnaskedWhereAVariableForbids) {
  const testing::ScopedEnv token("HF_TOKEN", "hf_a");
  EXPECT_EQ(detail::token_to_send(std::nullopt), "hf_a");
  EXPECT_EQ(detail::token_to_send(""), "");
  const testing::ScopedEnv implicit("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(detail::token_to_send(std::nullopt), "");
  EXPECT_EQ(detail::token_to_send("hf_b"), "hf_b");
}

}  // namespace
}  // namespace accelerate
