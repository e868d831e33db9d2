#include "accelerate/checkpoint/byte_progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "accelerate/base/process_identity.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::ScopedEnv;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Both ends of a terminal.
struct Terminal {
  Terminal() : screen(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    ::grantpt(screen);
    ::unlockpt(screen);
    fd = ::open(::ptsname(screen), O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  ~Terminal() {
    ::close(fd);
    ::close(screen);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] std::string text() const {
    std::string all;
    pollfd ready{.fd = screen, .events = POLLIN, .revents = 0};
    char part[4096];
    while (::poll(&ready, 1, 0) > 0) {
      const ssize_t n = ::read(screen, part, sizeof part);
      if (n <= 0) break;
      all.append(part, static_cast<std::size_t>(n));
    }
    return all;
  }

  int screen, fd = -1;
};

// What a save of 8 MiB shows by half of it.
std::string shown(std::chrono::milliseconds delay, int local_rank) {
  const ScopedEnv term("TERM", "xterm");
  const ScopedProcessIdentity identity({.rank = 4, .world_size = 8, .local_rank = local_rank});
  const Terminal terminal;
  ByteProgress progress({.description = "saving the state",
                         .total_bytes = 8 * kMiB,
                         .delay = delay,
                         .fd = terminal.fd});
  for (int i = 0; i < 4; ++i) progress(kMiB);
  return terminal.text();
}

TEST(ByteProgress, CountsMebibytesOnTheTerminalOfTheLocalMainProcess) {
  const auto text = shown(0ms, 0);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "saving the state", text);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "/8", text);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "MiB/s", text);
}

TEST(ByteProgress, ShowsNothingElsewhereOrBeforeItsDelay) {
  EXPECT_EQ(shown(0ms, 1), "");
  EXPECT_EQ(shown(1h, 0), "");
}

TEST(ByteProgress, WritesNothingIntoAFileOrPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  {
    ByteProgress progress(
        {.description = "saving", .total_bytes = kMiB, .delay = 0ms, .fd = ends[1]});
    progress(kMiB);
  }
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), -1);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace accelerate
