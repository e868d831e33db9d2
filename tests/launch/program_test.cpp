#include "accelerate/launch/program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

// A folder with one of each: it is in PATH, and the working folder is another.
class Program : public ::testing::Test {
 protected:
  Program() : path_("PATH", (folder_.path() / "bin").c_str()), before_(fs::current_path()) {
    executable("bin/python3");
    executable("bin/tool");
    executable("here/train");
    folder_.write("here/train.py", "");
    folder_.write("here/notes.txt", "");
    fs::current_path(folder_.path() / "here");
  }
  ~Program() override { fs::current_path(before_); }

  void executable(const std::string& name) {
    chmod(folder_.write(name, "#!/bin/sh\n").c_str(), 0755);
  }
  [[nodiscard]] std::string bin(const std::string& name) const {
    return folder_.path() / "bin" / name;
  }

  testing::TemporaryFolder folder_;
  ScopedEnv path_;
  fs::path before_;
};

TEST_F(Program, WithASlashIsAPath) {
  EXPECT_EQ(resolve_program({"./train", "--a", "-b"}, {}), (Words{"./train", "--a", "-b"}));
}

TEST_F(Program, ThatIsAScriptOrNamesPythonMayRunPython) {
  EXPECT_TRUE(may_run_python({bin("python3"), "-u", "train.py"}));
  EXPECT_TRUE(may_run_python({"./train"}));  // A script.
  EXPECT_TRUE(may_run_python({"/proc/self/exe", "-c", "exec python3 train.py"}));
  EXPECT_FALSE(may_run_python({"/proc/self/exe", "--config", "train.yaml"}));
}

TEST_F(Program, WithoutASlashIsSearchedForInPath) {
  EXPECT_EQ(resolve_program({"tool", "x"}, {}), (Words{bin("tool"), "x"}));
}

TEST_F(Program, ThatIsAPythonFileIsHandedToPython) {
  EXPECT_EQ(resolve_program({"train.py", "--lr", "1"}, {}),
            (Words{bin("python3"), "-u", "train.py", "--lr", "1"}));
}

TEST_F(Program, ThatIsAModuleIsHandedToPython) {
  EXPECT_EQ(resolve_program({"pack.train", "x"}, {.module = true}),
            (Words{bin("python3"), "-u", "-m", "pack.train", "x"}));
}

TEST_F(Program, ThatIsAPythonFileIsExecutedItselfWithNoPython) {
  chmod("train.py", 0755);
  EXPECT_EQ(resolve_program({"./train.py"}, {.no_python = true}), Words{"./train.py"});
}

struct BadProgram {
  const char* name;
  int exit_code;
  const char* message;
};

TEST_F(Program, ThatCannotBeStartedIsRefusedWithTheCure) {
  fs::create_directory("folder.py");
  const std::vector<BadProgram> rows = {
      {"./absent", 127, "there is no program './absent'"},
      {"./tarin", 127, "Did you mean 'train'?"},
      {"nowhere/train", 127, "the folder 'nowhere' does not exist"},
      {"train", 127, "write './train'"},
      {"unknown-tool", 127, "in PATH"},
      {"trian.py", 127, "Did you mean 'train.py'?"},
      {"./notes.txt", 126, "chmod +x ./notes.txt"},
      {"../here", 126, "'../here' is a folder"},
      {"folder.py", 126, "'folder.py' is a folder"},
      {"/dev/null", 126, "not executable"}};
  for (const auto& row : rows) {
    try {
      (void)resolve_program({row.name}, {});
      ADD_FAILURE() << row.name;
    } catch (const ProgramError& error) {
      EXPECT_EQ(error.exit_code(), row.exit_code) << row.name;
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos) << error.what();
      const std::string name = row.exit_code == 127 ? "[accelerate.error/program-not-found]"
                                                    : "[accelerate.error/program-not-executable]";
      EXPECT_TRUE(std::string(error.what()).ends_with(name)) << error.what();
    }
  }
}

TEST_F(Program, ThatIsNotNamedIsAnError) {
  EXPECT_THROW((void)resolve_program({}, {}), ConfigError);
  EXPECT_THROW((void)resolve_program({""}, {}), ConfigError);
}

TEST_F(Program, CannotBeAModuleWithoutPython) {
  EXPECT_THROW((void)resolve_program({"x"}, {.module = true, .no_python = true}), ConfigError);
}

TEST_F(Program, NeedsAPythonInPath) {
  fs::remove(bin("python3"));
  EXPECT_THROW((void)resolve_program({"train.py"}, {}), ProgramError);
}

}  // namespace
}  // namespace accelerate
