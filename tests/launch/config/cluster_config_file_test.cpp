// Configuration files as files: absent, unreadable, huge, links, and where the default one is.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/launch/config/cluster_config.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;
using testing::TemporaryFolder;

// The description of the error that loading `file` ends in.
std::string load_failure(const std::filesystem::path& file) {
  std::string message;
  try {
    (void)load_cluster_config(file);
  } catch (const ConfigError& error) {
    message = describe(error);
  }
  EXPECT_NE(message.find(file.filename().string()), std::string::npos) << message;
  return message;
}

TEST(ClusterConfigFile, MissingFileNamesTheCure) {
  const std::string message = load_failure("/nowhere/my.yaml");
  EXPECT_NE(message.find("'/nowhere/my.yaml' does not exist"), std::string::npos) << message;
  EXPECT_NE(message.find("accelerate config"), std::string::npos) << message;
}

TEST(ClusterConfigFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "folder.yaml");
  EXPECT_NE(load_failure(folder.path() / "folder.yaml").find("cannot be read"), std::string::npos);
  ASSERT_EQ(mkfifo((folder.path() / "fifo.yaml").c_str(), 0600), 0);
  EXPECT_NE(load_failure(folder.path() / "fifo.yaml").find("cannot be read"), std::string::npos);
  EXPECT_NE(load_failure("/dev/zero"), "");
  std::filesystem::create_symlink("loop.yaml", folder.path() / "loop.yaml");
  EXPECT_NE(load_failure(folder.path() / "loop.yaml"), "");
}

// Root may read every file, so while alive this is nobody.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() { EXPECT_EQ(seteuid(before_ == 0 ? 65534 : before_), 0); }
  ~AsOrdinaryUser() { EXPECT_EQ(seteuid(before_), 0); }

 private:
  uid_t before_ = geteuid();
};

TEST(ClusterConfigFile, UnreadableFileSaysSo) {
  const TemporaryFolder folder;
  const auto file = folder.write("secret.yaml", "distributed_type: NO\n");
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const AsOrdinaryUser user;
  EXPECT_NE(load_failure(file).find("Permission denied"), std::string::npos);
}

TEST(ClusterConfigFile, TwoMebibytesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_NE(load_failure(folder.write("big.yaml", std::string(2 << 20, 'a'))).find("1"),
            std::string::npos);
}

TEST(ClusterConfigFile, SavingMakesFoldersAndKeepsSymbolicLinks) {
  const TemporaryFolder folder;
  const auto real = folder.path() / "a" / "b" / "real.yaml";
  ClusterConfig config;
  config.num_processes = 3;
  save_cluster_config(config, real);
  const auto link = folder.path() / "link.yaml";
  std::filesystem::create_symlink(real, link);
  config.num_processes = 4;
  save_cluster_config(config, link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(load_cluster_config(real).num_processes, 4);
}

TEST(ClusterConfigFile, TheDefaultFileFollowsTheEnvironment) {
  const ScopedEnv home("HOME", "/home/me");
  const ScopedEnv hf("HF_HOME", nullptr);
  const ScopedEnv cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(default_config_file(), "/home/me/.cache/huggingface/accelerate/default_config.yaml");
  const ScopedEnv cache_set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(default_config_file(), "/cache/huggingface/accelerate/default_config.yaml");
  const ScopedEnv hf_set("HF_HOME", "~/hf");
  EXPECT_EQ(default_config_file(), "/home/me/hf/accelerate/default_config.yaml");
}

}  // namespace
}  // namespace accelerate
