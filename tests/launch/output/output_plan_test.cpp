#include "accelerate/launch/output/output_plan.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using detail::Streams;
using enum Destination;

std::vector<Streams> parse(const std::string& text) {
  return detail::parse_streams(text, 3, "--tee");
}

TEST(OutputFlags, MeanStreamsOfAllRanksOrOfSome) {
  EXPECT_EQ(parse("0"), std::vector(3, Streams::none));
  EXPECT_EQ(parse("1"), std::vector(3, Streams::out));
  EXPECT_EQ(parse("2"), std::vector(3, Streams::err));
  EXPECT_EQ(parse("3"), std::vector(3, Streams::both));
  EXPECT_EQ(parse("2:1,0:3"), (std::vector{Streams::both, Streams::none, Streams::out}));
  EXPECT_EQ(detail::parse_streams("10:2", 11, "--tee")[10], Streams::err);
}

TEST(OutputFlags, AreRefusedWithWhatIsAllowed) {
  for (const char* text :
       {"4", "-1", "", "x", "1,2", "0:4", "0:", ":1", "0:1,", "0:1,2", "0:11", " 1"}) {
    const std::string message = testing::message_of<ConfigError>([&] { (void)parse(text); });
    EXPECT_TRUE(message.starts_with("--tee is '" + std::string(text) + "'; write 0 (neither), 1"))
        << message;
  }
  EXPECT_EQ(
      testing::message_of<ConfigError>([] { (void)parse("0:1,3:1"); }),
      "--tee is '0:1,3:1', which names local rank 3. This machine has the local ranks 0 to 2.");
  EXPECT_EQ(testing::message_of<ConfigError>(
                [] { (void)detail::parse_streams("1:1", 1, "--redirects"); }),
            "--redirects is '1:1', which names local rank 1. This machine has one local rank, 0.");
}

TEST(OutputFlags, SayWhereEachStreamGoes) {
  const auto plan = detail::parse_output({.tee = "0:1", .redirects = "0:2,1:1"}, 3);
  ASSERT_EQ(plan.ranks.size(), 3U);
  EXPECT_EQ(plan.ranks[0], (RankStreams{.out = both, .err = file}));
  EXPECT_EQ(plan.ranks[1], (RankStreams{.out = file, .err = terminal}));
  EXPECT_EQ(plan.ranks[2], (RankStreams{.out = terminal, .err = terminal}));
  EXPECT_TRUE(plan.has_files());
}

TEST(OutputFlags, ChangeNothingByDefault) {
  const auto plan = detail::parse_output({.tee = "0"}, 2);
  EXPECT_TRUE(plan.ranks.empty());
  EXPECT_FALSE(plan.has_files());
}

TEST(OutputFlags, HideRanksFromTheTerminalAlone) {
  const auto plan = detail::parse_output({.tee = "1", .local_ranks_filter = "1"}, 2);
  EXPECT_EQ(plan.ranks[0], (RankStreams{.out = file, .err = nowhere}));
  EXPECT_EQ(plan.ranks[1], (RankStreams{.out = both, .err = terminal}));
  const auto refused = [](const char* text) {
    return testing::message_of<ConfigError>(
        [&] { (void)detail::parse_output({.local_ranks_filter = text}, 2); });
  };
  EXPECT_EQ(refused("0,x"),
            "--local_ranks_filter is '0,x'; write numbers of local ranks, as in 0 or 0,2.");
  EXPECT_NE(refused("2").find("names local rank 2"), std::string::npos);
}

// The expectations are what string.Template(...).safe_substitute(rank=7, local_rank=3) returns.
TEST(OutputFlags, FillTemplatesAsPythonDoes) {
  const auto fill = [](const char* text) {
    return detail::fill_template(text, {{"rank", "7"}, {"local_rank", "3"}});
  };
  EXPECT_EQ(fill("[${rank}]: $local_rank/$rank|"), "[7]: 3/7|");
  EXPECT_EQ(fill("$$rank $ ${other} $others ${rank"), "$rank $ ${other} $others ${rank");
  EXPECT_EQ(fill("$rankle ${ rank} $"), "$rankle ${ rank} $");
}

}  // namespace
}  // namespace accelerate
