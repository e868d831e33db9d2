// Disks that are full, and systems that refuse calls. Each in a fork, which alone sees it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>

#include "accelerate/base/direct_file.h"
#include "accelerate/base/error.h"
#include "tests/base/random_bytes.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::PlacedBytes;
using testing::random_bytes;

constexpr int kNotPermitted = 77;

void require(bool condition, const char* what) {
  if (!condition) throw Error(what);
}

// Returns the exit code of a fork that runs `body`: 0, or 1 and a message if it throws.
int in_a_child(const std::function<void()>& body) {
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

// Mounts a file system of `type` at `folder`, for this process alone.
void mount_or_exit(const char* type, const std::filesystem::path& folder, const char* options) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount(type, folder.c_str(), type, 0, options) != 0) {
    ::_exit(kNotPermitted);
  }
}

// From now on this process's reads and writes of `fd` at an offset fail with `error`.
void fail_calls_or_exit(int fd, int error) {
  const auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  const auto first = static_cast<std::uint32_t>(offsetof(seccomp_data, args));
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pread64, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pwrite64, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(fd), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(kNotPermitted);
  }
}

// Returns the descriptor that a DirectFile uses past the cache; the last such one.
int direct_descriptor() {
  for (int fd = 1023; fd >= 0; --fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags != -1 && (flags & O_DIRECT) != 0) return fd;
  }
  return -1;
}

void require_content(const DirectFile& file, const AlignedBytes& expected) {
  const PlacedBytes found(expected.size(), 1);
  file.read(0, found.bytes());
  require(std::ranges::equal(found.bytes(), expected.bytes()), "other bytes were read");
}

TEST(DirectFileFaults, AFullDiskIsToldWhenTheFileIsMade) {
  const testing::TemporaryFolder folder;
  const int code = in_a_child([&] {
    mount_or_exit("tmpfs", folder.path(), "size=1m");
    try {
      (void)DirectFile::create(folder.path() / "a", 2 << 20);
      throw Error("nothing was thrown");
    } catch (const FileError& error) {
      require(error.error_number() == ENOSPC, error.what());
    }
    require(std::filesystem::is_empty(folder.path()), "a file is left");
    (void)DirectFile::create(folder.path() / "b", 1 << 19);
  });
  if (code == kNotPermitted) GTEST_SKIP() << "no right to make a mount namespace";
  EXPECT_EQ(code, 0);
}

// It can neither reserve space nor go past the cache.
TEST(DirectFileFaults, AFileSystemThatCanNothingIsUsedThroughTheCache) {
  const testing::TemporaryFolder folder;
  const int code = in_a_child([&] {
    mount_or_exit("ramfs", folder.path(), nullptr);
    const DirectFile file = DirectFile::create(folder.path() / "a", 50'000);
    require(!file.is_direct(), "it is direct");
    require(std::filesystem::file_size(file.path()) == 50'000, "it has another size");
    const AlignedBytes written = random_bytes(50'000, 1);
    file.write(0, written.bytes());
    require_content(file, written);
  });
  if (code == kNotPermitted) GTEST_SKIP() << "no right to make a mount namespace";
  EXPECT_EQ(code, 0);
}

TEST(DirectFileFaults, AReadOnlyFileSystemIsTold) {
  const testing::TemporaryFolder folder;
  const int code = in_a_child([&] {
    mount_or_exit("tmpfs", folder.path(), "ro");
    try {
      (void)DirectFile::create(folder.path() / "a", 10);
      throw Error("nothing was thrown");
    } catch (const FileError& error) {
      require(error.error_number() == EROFS, error.what());
    }
  });
  if (code == kNotPermitted) GTEST_SKIP() << "no right to make a mount namespace";
  EXPECT_EQ(code, 0);
}

class DirectFileRefusals : public ::testing::TestWithParam<int> {
 protected:
  // Runs `use` in a fork where calls of the file's direct descriptor fail with `error`.
  void with_failing_calls(int error,
                          const std::function<void(const DirectFile&, const AlignedBytes&)>& use) {
    const testing::TemporaryFolder folder;
    const AlignedBytes written = random_bytes(60'000, 1);
    const DirectFile file = DirectFile::create(folder.path() / "a", written.size());
    file.write(0, written.bytes());
    if (!file.is_direct()) GTEST_SKIP() << "no direct access in " << folder.path();
    const int code = in_a_child([&] {
      fail_calls_or_exit(direct_descriptor(), error);
      use(file, written);
    });
    if (code == kNotPermitted) GTEST_SKIP() << "no right to filter system calls";
    EXPECT_EQ(code, 0);
  }
};

TEST_P(DirectFileRefusals, OfTheFirstReadAreFollowedByTheCache) {
  with_failing_calls(GetParam(), [](const DirectFile& file, const AlignedBytes& written) {
    require(file.is_direct(), "it is not direct at first");
    require_content(file, written);
    require(!file.is_direct(), "it is still direct");
  });
}

TEST_P(DirectFileRefusals, OfTheFirstWriteAreFollowedByTheCache) {
  with_failing_calls(GetParam(), [](const DirectFile& file, const AlignedBytes&) {
    const AlignedBytes others = random_bytes(file.size_bytes(), 2);
    file.write(0, others.bytes());
    require(!file.is_direct(), "it is still direct");
    require_content(file, others);
  });
}

INSTANTIATE_TEST_SUITE_P(Errors, DirectFileRefusals, ::testing::Values(EINVAL, EOPNOTSUPP));

TEST_F(DirectFileRefusals, OfADiskAreErrorsThatNameThePlace) {
  with_failing_calls(EIO, [](const DirectFile& file, const AlignedBytes& written) {
    for (const bool reads : {true, false}) {
      try {
        reads ? file.read(4096, written.bytes().subspan(4096))
              : file.write(4096, written.bytes().subspan(4096));
        throw Error("nothing was thrown");
      } catch (const FileError& error) {
        require(error.error_number() == EIO, error.what());
        const std::string message = error.what();
        require(message.find("bytes at offset 4096 of '") != std::string::npos, error.what());
      }
    }
    require(file.is_direct(), "it gave up direct access");
  });
}

}  // namespace
}  // namespace accelerate
