// `accelerate setup`.
#include <gtest/gtest.h>

#include <sstream>

#include "accelerate/base/error.h"
#include "cli/commands/commands.h"
#include "cli/torch_program/libtorch_folder.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

class Setup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (wanted_libtorch().empty()) GTEST_SKIP() << "built without LibTorch";
    fs::create_directory(link_.parent_path());
  }

  // Writes what makes a folder a LibTorch.
  fs::path fake_libtorch(const std::string& name, const std::string& version) {
    folder_.write(name + "/lib/libtorch.so", "");
    folder_.write(
        name + "/include/torch/headeronly/version.h",
        "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION \\\n  \"" + version + "\"\n");
    return folder_.path() / name;
  }

  std::string setup(const fs::path& torch) {
    std::ostringstream out;
    EXPECT_EQ(run_setup({.torch = torch, .link = link_}, out), 0);
    return out.str();
  }

  std::string refusal_of(const fs::path& torch) {
    return message_of<ConfigError>([&] { setup(torch); });
  }

  TemporaryFolder folder_;
  fs::path link_ = folder_.path() / "etc/libtorch";
};

TEST_F(Setup, TakesAnUnpackedLibTorchAWheelAndAnEnvironment) {
  const std::string version = wanted_libtorch() + ".7";
  const std::string wheel = "env/lib/python3.11/site-packages/torch";
  fake_libtorch(wheel, version);
  folder_.write(wheel + "/version.py", "");
  fake_libtorch("unpacked/libtorch", version);
  EXPECT_NE(setup(folder_.path() / "env").find(version + ", a Python wheel for the CPU"),
            std::string::npos);
  EXPECT_EQ(fs::read_symlink(link_), folder_.path() / wheel);
  EXPECT_NE(setup(folder_.path() / "unpacked").find("an unpacked LibTorch"), std::string::npos);
  EXPECT_EQ(fs::read_symlink(link_), folder_.path() / "unpacked/libtorch");
  setup(folder_.path() / wheel);
  EXPECT_EQ(fs::read_symlink(link_), folder_.path() / wheel);
}

TEST_F(Setup, RefusesOtherFoldersAndLeavesTheLink) {
  const auto good = fake_libtorch("good", wanted_libtorch() + ".0");
  setup(good);
  for (const auto& [torch, message] : {std::pair<fs::path, const char*>{"", "must name a folder"},
                                       {folder_.path() / "none", "No such file"},
                                       {folder_.path(), "no lib/libtorch.so"},
                                       {fake_libtorch("other", "2.9.1"),
                                        "an unpacked LibTorch for the CPU, has version 2.9.1, but"},
                                       {fake_libtorch("unversioned", ""), "has version unknown"}})
    EXPECT_NE(refusal_of(torch).find(message), std::string::npos) << refusal_of(torch);
  EXPECT_NE(refusal_of(folder_.path()).find("pip install \"torch==" + wanted_libtorch() + ".*\""),
            std::string::npos);
  EXPECT_EQ(fs::read_symlink(link_), good);
}

TEST_F(Setup, SaysWhoMayWriteTheLink) {
  const auto good = fake_libtorch("good", wanted_libtorch() + ".0");
  folder_.write("etc/libtorch/a_file", "");  // Where no link can be.
  EXPECT_NE(refusal_of(good).find("cannot write the link " + link_.string()), std::string::npos);
}

TEST_F(Setup, IsForTheDebianPackages) {
  std::ostringstream out;
  EXPECT_NE(message_of<ConfigError>([&] { run_setup({}, out); }).find("for the Debian packages"),
            std::string::npos);
}

}  // namespace
}  // namespace accelerate::cli
