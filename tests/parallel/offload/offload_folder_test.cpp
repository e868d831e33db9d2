// Folders of offload: whose they are, who removes them, and where they may be.
#include "accelerate/parallel/offload/offload_folder.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/base/file_system.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::OffloadFolder;
using testing::message_of;

// Returns the names of all folders below `root`.
std::vector<std::string> folders_below(const fs::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  return names;
}

// A process that makes a folder below `root`, and lives until it is killed.
class KilledProcess {
 public:
  explicit KilledProcess(const fs::path& root) {
    int made[2];
    if (::pipe(made) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      const OffloadFolder folder(root, "1-2", 0);
      if (::write(made[1], "x", 1) == 1) ::pause();
      ::_exit(1);
    }
    ::close(made[1]);
    char byte = 0;
    was_made_ = ::read(made[0], &byte, 1) == 1;
    ::close(made[0]);
  }
  ~KilledProcess() { kill(); }
  KilledProcess(const KilledProcess&) = delete;
  KilledProcess& operator=(const KilledProcess&) = delete;

  [[nodiscard]] bool was_made() const { return was_made_; }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
  bool was_made_ = false;
};

TEST(OffloadFolders, AreRemovedInTheEndAndAfterAnException) {
  const testing::TemporaryFolder home;
  const fs::path root = home.path() / "made" / "here";
  {
    const OffloadFolder one(root, "1-2", 0), other(root, "1-3", 0);
    EXPECT_EQ(folders_below(root).size(), 2);
    EXPECT_NE(one.path(), other.path());
  }
  EXPECT_TRUE(folders_below(root).empty());
  EXPECT_THROW(
      {
        const OffloadFolder folder(root, "1-2", 0);
        throw std::runtime_error("the training failed");
      },
      std::runtime_error);
  EXPECT_TRUE(folders_below(root).empty());
}

TEST(OffloadFolders, OfAKilledProcessAreRemovedByTheNextOneAndOfALiveOneAreNot) {
  const testing::TemporaryFolder root;
  KilledProcess process(root.path());
  ASSERT_TRUE(process.was_made());
  {
    const OffloadFolder beside(root.path(), "1-3", 0);
  }
  EXPECT_EQ(folders_below(root.path()).size(), 1) << "the process lives";
  process.kill();
  EXPECT_EQ(folders_below(root.path()).size(), 1);
  const OffloadFolder next(root.path(), "1-4", 0);
  EXPECT_EQ(folders_below(root.path()), std::vector{next.path().filename().string()});
}

// Each looks a little like a folder that a killed process left.
TEST(OffloadFolders, OfOthersAreNotTouched) {
  const testing::TemporaryFolder root;
  const auto path = [&](const std::string& name) { return root.path() / name; };
  const std::string ours = "accelerate-offload-1-2-rank";
  const std::vector<std::string> others = {"accelerate-offload-mine", "accelerate-offload-",
                                           ours + "0-copy", "my-" + ours + "0"};
  for (const auto& name : others) {
    fs::create_directories(path(name));
    (void)root.write(name + "/.lock", "");
    (void)root.write(name + "/thesis", "text");
  }
  fs::create_directories(path(ours + "0"));
  (void)root.write(ours + "0/parameters", "no lock file");
  (void)root.write(ours + "1", "a file");
  fs::create_directory_symlink("accelerate-offload-mine", path(ours + "2"));
  fs::create_directories(path(ours + "3"));
  const auto lock = real_file_system().lock(path(ours + "3"));
  fs::create_directories(path(ours + "4") / ".lock");

  {
    const OffloadFolder folder(root.path(), "5-6", 0);
  }
  for (const auto& name : others) {
    EXPECT_TRUE(fs::exists(path(name) / "thesis")) << name;
    EXPECT_TRUE(fs::exists(path(name) / ".lock")) << name;
  }
  for (const auto* number : {"0", "1", "3", "4"})
    EXPECT_TRUE(fs::exists(path(ours + number))) << number;
  EXPECT_TRUE(fs::is_symlink(path(ours + "2")));
}

TEST(OffloadFolders, AreNotMadeInAFileOrTwice) {
  const testing::TemporaryFolder home;
  const auto file = home.write("file", "text");
  EXPECT_NE(message_of<FileError>([&] { OffloadFolder(file, "1-2", 0); }).find(file.string()),
            std::string::npos);
  EXPECT_NE(message_of<FileError>([&] { OffloadFolder(file / "below", "1-2", 0); }).find("below"),
            std::string::npos);
  const OffloadFolder folder(home.path(), "1-2", 0);
  EXPECT_THROW(OffloadFolder(home.path(), "1-2", 0), FolderInUse);
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST(OffloadFolders, StayWhereTheyWereWhenTheProgramGoesToAnotherFolder) {
  const testing::TemporaryFolder home, elsewhere;
  const fs::path before = fs::current_path();
  fs::current_path(home.path());
  {
    const OffloadFolder folder("root", "1-2", 0);
    fs::current_path(elsewhere.path());
    EXPECT_EQ(folders_below(home.path() / "root").size(), 1);
  }
  fs::current_path(before);
  EXPECT_TRUE(folders_below(home.path() / "root").empty());
}

// Returns the exit code of a fork that runs `body`: 77 where that sets itself up in vain.
constexpr int kNotPermitted = 77;
int exit_code_of(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
      ::_exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(1);
    }
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(OffloadFolders, StayWhenAForkedChildEndsItsCopy) {
  const testing::TemporaryFolder root;
  auto folder = std::make_unique<OffloadFolder>(root.path(), "1-2", 0);
  EXPECT_EQ(exit_code_of([&] { folder = nullptr; }), 0);
  EXPECT_TRUE(fs::exists(folder->path() / ".lock"));
}

TEST(OffloadFolders, OfTwoUsersMayLieBelowOneRoot) {
  const testing::TemporaryFolder root;
  fs::permissions(root.path(), fs::perms::all | fs::perms::sticky_bit);
  {
    const OffloadFolder first(root.path(), "1-2", 0);
  }
  const int code = exit_code_of([&] {
    if (::setuid(65534) != 0) ::_exit(kNotPermitted);
    const OffloadFolder second(root.path(), "1-3", 0);
  });
  if (code == kNotPermitted) GTEST_SKIP() << "no right to become another user";
  EXPECT_EQ(code, 0);
}

TEST(OffloadFolders, CannotBeMadeWithoutTheRight) {
  const testing::TemporaryFolder root;
  const int code = exit_code_of([&] {
    if (::setuid(65534) != 0) ::_exit(kNotPermitted);
    try {
      const OffloadFolder folder(root.path(), "1-3", 0);
    } catch (const FileError& error) {
      if (error.error_number() == EACCES) return;
      throw;
    }
    throw std::runtime_error("it was made");
  });
  if (code == kNotPermitted) GTEST_SKIP() << "no right to become another user";
  EXPECT_EQ(code, 0);
}

// A folder between its making and its lock looks like one that a killed process left.
TEST(OffloadFolders, MayComeAndGoInManyThreads) {
  const testing::TemporaryFolder root;
  const testing::LogCapture log;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 6; ++rank) {
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 40; ++i) {
        try {
          const OffloadFolder folder(root.path(), "1-" + std::to_string(i), rank);
          EXPECT_TRUE(fs::exists(folder.path() / ".lock"));
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(folders_below(root.path()).empty());
  for (const auto& line : log.lines()) EXPECT_EQ(line.find("stays"), std::string::npos) << line;
}

TEST(OffloadFolders, InMemoryOrOnAnotherMachineAreWarnedOf) {
  using detail::weakness_of_file_system;
  for (const long memory : {long{TMPFS_MAGIC}, long{RAMFS_MAGIC}})
    EXPECT_NE(weakness_of_file_system(memory).find("memory"), std::string::npos);
  for (const long remote : {long{NFS_SUPER_MAGIC}, long{SMB_SUPER_MAGIC}, 0xFF534D42L, 0xFE534D42L})
    EXPECT_NE(weakness_of_file_system(remote).find("another machine"), std::string::npos);
  for (const long local : {long{EXT4_SUPER_MAGIC}, long{BTRFS_SUPER_MAGIC}, 0x58465342L})
    EXPECT_EQ(weakness_of_file_system(local), "");
}

TEST(OffloadFolders, InMemoryAreWarnedOfOnce) {
  const fs::path memory = "/dev/shm/accelerate-test-offload-" + std::to_string(::getpid());
  const testing::LogCapture log;
  for (int i = 0; i < 2; ++i) const OffloadFolder folder(memory, "1-2", 0);
  fs::remove_all(memory);
  ASSERT_EQ(log.lines().size(), 1);
  EXPECT_NE(log.lines().front().find(memory.string() + "' is memory"), std::string::npos);
}

}  // namespace
}  // namespace accelerate
