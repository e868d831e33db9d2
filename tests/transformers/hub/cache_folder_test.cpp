#include <gtest/gtest.h>

#include <string>

#include "accelerate/transformers/hub/cache/cache.h"
#include "tests/transformers/hub/hub_support.h"

namespace accelerate {
namespace {

using testing::HubEnvironment;
using testing::ScopedEnv;

TEST_F(HubEnvironment, CacheIsInTheHomeWhenNothingIsSet) {
  EXPECT_EQ(hub_cache_folder(), "/home/me/.cache/huggingface/hub");
}

TEST_F(HubEnvironment, CacheFollowsTheStandardForCaches) {
  const ScopedEnv xdg("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(hub_cache_folder(), "/caches/huggingface/hub");
}

TEST_F(HubEnvironment, HomeOfHuggingFaceWinsOverTheStandard) {
  const ScopedEnv xdg("XDG_CACHE_HOME", "/caches");
  const ScopedEnv home("HF_HOME", "/hf");
  EXPECT_EQ(hub_cache_folder(), "/hf/hub");
}

TEST_F(HubEnvironment, OldVariableWinsOverTheHome) {
  const ScopedEnv home("HF_HOME", "/hf");
  const ScopedEnv old("HUGGINGFACE_HUB_CACHE", "/old");
  EXPECT_EQ(hub_cache_folder(), "/old");
}

TEST_F(HubEnvironment, CacheVariableWinsOverAll) {
  const ScopedEnv old("HUGGINGFACE_HUB_CACHE", "/old");
  const ScopedEnv cache("HF_HUB_CACHE", "/new");
  EXPECT_EQ(hub_cache_folder(), "/new");
}

TEST_F(HubEnvironment, EmptyVariableCountsAsInPython) {
  const ScopedEnv home("HF_HOME", "");
  EXPECT_EQ(hub_cache_folder(), "hub");
  const ScopedEnv cache("HF_HUB_CACHE", "");
  EXPECT_EQ(hub_cache_folder(), "");
}

TEST_F(HubEnvironment, TildeAndVariablesAreExpanded) {
  const ScopedEnv disk("HUB_TEST_DISK", "/disk/$HOME");
  const ScopedEnv cache("HF_HUB_CACHE", "~/${HUB_TEST_DISK}/$HUB_TEST_DISK.x/$HUB_TEST_NONE/$/${a");
  EXPECT_EQ(hub_cache_folder().string(), "/home/me//disk/$HOME//disk/$HOME.x/$HUB_TEST_NONE/$/${a");
}

TEST_F(HubEnvironment, HomeOfHuggingFaceIsExpandedTwiceAsInPython) {
  const ScopedEnv disk("HUB_TEST_DISK", "/disk/$HOME");
  const ScopedEnv home("HF_HOME", "$HUB_TEST_DISK");
  EXPECT_EQ(hub_cache_folder(), "/disk//home/me/hub");
}

TEST_F(HubEnvironment, TildeOfAnUnknownUserStays) {
  const ScopedEnv cache("HF_HUB_CACHE", "~no_such_user_here/hub");
  EXPECT_EQ(hub_cache_folder(), "~no_such_user_here/hub");
}

TEST_F(HubEnvironment, TildeOfAnEmptyHomeIsTheRoot) {
  const ScopedEnv home("HOME", "");
  const ScopedEnv cache("HF_HUB_CACHE", "~");
  EXPECT_EQ(hub_cache_folder(), "/");
}

TEST_F(HubEnvironment, SlashAtTheEndOfTheHomeIsDropped) {
  const ScopedEnv home("HOME", "/home/me/");
  const ScopedEnv cache("HF_HUB_CACHE", "~/hub");
  EXPECT_EQ(hub_cache_folder().string(), "/home/me/hub");
}

TEST_F(HubEnvironment, OfflineTakesThePythonSpellingsOfYes) {
  for (const char* yes : {"1", "on", "ON", "yes", "YES", "true", "True"}) {
    const ScopedEnv offline("HF_HUB_OFFLINE", yes);
    EXPECT_TRUE(is_offline()) << yes;
  }
}

TEST_F(HubEnvironment, OfflineIsOffForEverythingElse) {
  EXPECT_FALSE(is_offline());
  for (const char* no : {"", "0", "y", "t", "2", " 1", "no", "enabled"}) {
    const ScopedEnv offline("HF_HUB_OFFLINE", no);
    EXPECT_FALSE(is_offline()) << no;
  }
}

TEST_F(HubEnvironment, OfflineOfTransformersCountsWhereTheHubsIsEmpty) {
  const ScopedEnv transformers("TRANSFORMERS_OFFLINE", "1");
  const ScopedEnv empty("HF_HUB_OFFLINE", "");
  EXPECT_TRUE(is_offline());
  const ScopedEnv off("HF_HUB_OFFLINE", "0");
  EXPECT_FALSE(is_offline());
}

TEST(HubRepoId, TakesNamesWithAndWithoutAnOrganization) {
  for (const char* id : {"foo", "foo/bar", "123", "Foo-BAR_foo.bar123", "_a/b_", "a", "a.gitx"}) {
    EXPECT_TRUE(is_repo_id(id)) << id;
  }
  EXPECT_TRUE(is_repo_id(std::string(96, 'a') + "/" + std::string(96, 'b')));
}

TEST(HubRepoId, RefusesWhatTheHubRefuses) {
  for (const char* id :
       {"",      "/",     "a/",   "/a",   "a//b",    "datasets/foo/bar", ".repo",       "repo.",
        "-repo", "repo-", "a--b", "a..b", "foo.git", "org/foo.git",      "caf\xc3\xa9", "a b",
        "a\n",   "a/-b",  "a-/b", "~",    "."}) {
    EXPECT_FALSE(is_repo_id(id)) << id;
  }
  EXPECT_FALSE(is_repo_id(std::string(97, 'a')));
}

}  // namespace
}  // namespace accelerate
