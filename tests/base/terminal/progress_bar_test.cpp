#include "accelerate/base/terminal/progress_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <list>
#include <regex>
#include <stdexcept>
#include <thread>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

std::string drain(int fd) {
  std::string text;
  pollfd ready{fd, POLLIN, 0};
  std::array<char, 4096> buffer;
  while (poll(&ready, 1, 50) > 0 && (ready.revents & POLLIN) != 0) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// A pipe: what a log file or another program sees.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    out = Descriptor(ends[0]);
    in = Descriptor(ends[1]);
  }
  std::string text() { return drain(out.get()); }
  Descriptor out, in;
};

// A pseudo-terminal of 80 columns that passes bytes unchanged.
struct Terminal {
  Terminal() : out(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    grantpt(out.get());
    unlockpt(out.get());
    in = Descriptor(open(ptsname(out.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios mode{};
    tcgetattr(in.get(), &mode);
    cfmakeraw(&mode);
    tcsetattr(in.get(), TCSANOW, &mode);
    resize(80);
  }
  void resize(unsigned short columns) {
    const winsize size{24, columns, 0, 0};
    ioctl(in.get(), TIOCSWINSZ, &size);
  }
  std::string text() { return drain(out.get()); }
  Descriptor out, in;
};

// What the screen shows after `text`: rows of a terminal that knows the sequences live lines use.
std::vector<std::string> screen_after(const std::string& text) {
  std::vector<std::string> rows(1);
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      column = 0;
      if (++row == rows.size()) rows.emplace_back();
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text.compare(i, 3, "\x1b[A") == 0) {
      --row;
      i += 2;
    } else if (text.compare(i, 3, "\x1b[K") == 0) {
      rows[row].resize(column);
      i += 2;
    } else {
      rows[row].resize(std::max(rows[row].size(), column + 1), ' ');
      rows[row][column++] = text[i];
    }
  }
  while (rows.size() > row + 1 && rows.back().empty()) rows.pop_back();
  return rows;
}

class ProgressBarTest : public ::testing::Test {
 protected:
  testing::ScopedEnv term_{"TERM", "xterm"};
  testing::ScopedEnv locale_{"LC_ALL", "C"};
};

TEST_F(ProgressBarTest, IntoAPipeGoesOneLineAtTheEnd) {
  Pipe pipe;
  {
    ProgressBar bar({.description = "train", .total = 3, .fd = pipe.in.get()});
    for (int i = 0; i < 3; ++i) bar.update();
    bar.set_postfix({{"loss", 0.12345}, {"step", 7}, {"phase", "warm"}});
    EXPECT_EQ(pipe.text(), "");
  }
  const std::string text = pipe.text();
  EXPECT_TRUE(std::regex_match(
      text, std::regex("train: 3/3 \\(100%\\) \\[\\d\\d:\\d\\d<00:00, [0-9.]+it/s, "
                       "loss=0.123, step=7, phase=warm\\]\n")))
      << text;
}

TEST_F(ProgressBarTest, IntoAPipeGoesALineAtEachInterval) {
  Pipe pipe;
  const auto start = std::chrono::steady_clock::now();
  ProgressBar bar({.total = 100, .fd = pipe.in.get(), .line_interval = milliseconds(30)});
  for (int i = 0; i < 100; ++i) {
    bar.update();
    std::this_thread::sleep_for(milliseconds(1));
  }
  bar.close();
  const auto intervals = (std::chrono::steady_clock::now() - start) / milliseconds(30);
  const std::string text = pipe.text();
  const auto lines = std::ranges::count(text, '\n');
  EXPECT_GE(lines, 3) << text;
  EXPECT_LE(lines, intervals + 3) << text;
  EXPECT_NE(text.find("100/100 (100%)"), std::string::npos) << text;
}

TEST_F(ProgressBarTest, OnATerminalItIsOneLineRedrawnAndLeftAtTheEnd) {
  Terminal terminal;
  {
    ProgressBar bar({.description = "train",
                     .total = 5,
                     .fd = terminal.in.get(),
                     .redraw_interval = milliseconds(0)});
    for (int i = 0; i < 5; ++i) {
      bar.update();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  const std::string text = terminal.text();
  EXPECT_GE(std::ranges::count(text, '\r'), 5);
  const auto rows = screen_after(text);
  ASSERT_EQ(rows.size(), 2);
  EXPECT_TRUE(std::regex_search(
      rows[0], std::regex("^train: 100%\\|#+\\| 5/5 \\[\\d\\d:\\d\\d<00:00, .*it/s\\]$")))
      << rows[0];
  EXPECT_LE(rows[0].size(), 79);
  EXPECT_EQ(rows[1], "");
}

TEST_F(ProgressBarTest, ADescriptionMayChangeOnTheWay) {
  Terminal terminal;
  ProgressBar bar({.description = "warm up",
                   .total = 2,
                   .fd = terminal.in.get(),
                   .redraw_interval = milliseconds(0)});
  bar.update();
  bar.set_description("train");
  bar.update();
  bar.close();
  EXPECT_TRUE(screen_after(terminal.text())[0].starts_with("train: 100%"));
}

TEST_F(ProgressBarTest, TextPassesAboveALivingBar) {
  Terminal terminal;
  ProgressBar bar({.description = "train", .total = 5, .fd = terminal.in.get()});
  print_above_live_lines(terminal.in.get(), "first\nsecond\n");
  const auto rows = screen_after(terminal.text());
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0], "first");
  EXPECT_EQ(rows[1], "second");
  EXPECT_TRUE(rows[2].starts_with("train:   0%|")) << rows[2];
}

TEST_F(ProgressBarTest, AnInnerBarStandsBelowAndGoesWhenDone) {
  Terminal terminal;
  std::string text;
  {
    ProgressBar epochs({.description = "epoch", .total = 2, .fd = terminal.in.get()});
    {
      ProgressBar batches({.description = "batch", .total = 9, .fd = terminal.in.get()});
      text = terminal.text();
      const auto both = screen_after(text);
      ASSERT_EQ(both.size(), 2);
      EXPECT_TRUE(both[0].starts_with("epoch:   0%")) << both[0];
      EXPECT_TRUE(both[1].starts_with("batch:   0%")) << both[1];
    }
    epochs.update(2);
  }
  const auto rows = screen_after(text + terminal.text());
  ASSERT_EQ(rows.size(), 2);
  EXPECT_TRUE(rows[0].starts_with("epoch: 100%")) << rows[0];
  EXPECT_EQ(rows[1], "");
}

TEST_F(ProgressBarTest, ANarrowerTerminalGetsANarrowerLineAndTheWrappedRowsAreCleared) {
  Terminal terminal;
  ProgressBar bar({.total = 100, .fd = terminal.in.get(), .redraw_interval = milliseconds(0)});
  EXPECT_GT(screen_after(terminal.text()).back().size(), 70);
  terminal.resize(40);
  bar.update();
  const std::string text = terminal.text();
  EXPECT_TRUE(text.starts_with("\r\x1b[K\x1b[A\x1b[K")) << text;
  EXPECT_LE(text.substr(text.rfind('K') + 1).size(), 39) << text;
}

TEST_F(ProgressBarTest, OnlyRankZeroShowsItUnlessAllAreAsked) {
  Pipe pipe;
  const ScopedProcessIdentity scope(
      {.rank = 1, .world_size = 2, .local_rank = 0, .barrier = nullptr});
  {
    ProgressBar bar({.total = 1, .fd = pipe.in.get()});
    bar.update();
    EXPECT_EQ(bar.done(), 1);
  }
  EXPECT_EQ(pipe.text(), "");
  {
    ProgressBar bar({.total = 1, .main_process_only = false, .fd = pipe.in.get()});
  }
  EXPECT_NE(pipe.text(), "");
}

TEST_F(ProgressBarTest, WrapsAnyRange) {
  Pipe pipe;
  std::vector<int> values = {1, 2, 3};
  for (int& value : progress(values, {.fd = pipe.in.get()})) value *= 2;
  EXPECT_EQ(values, (std::vector<int>{2, 4, 6}));
  int sum = 0;
  for (const int value : progress(std::list<int>{5, 6}, {.fd = pipe.in.get()})) sum += value;
  EXPECT_EQ(sum, 11);
  const std::string text = pipe.text();
  EXPECT_NE(text.find("3/3 (100%)"), std::string::npos) << text;
  EXPECT_NE(text.find("2/2 (100%)"), std::string::npos) << text;
}

// As a loader is: iterators without a category, and a size that may be unknown.
struct Loader {
  struct Iterator {
    int at;
    int operator*() const { return at; }
    Iterator& operator++() { return ++at, *this; }
    bool operator==(const Iterator& other) const { return at == other.at; }
  };
  [[nodiscard]] Iterator begin() const { return {0}; }
  [[nodiscard]] Iterator end() const { return {4}; }
  [[nodiscard]] std::optional<std::size_t> size() const {
    return known ? std::optional<std::size_t>(4) : std::nullopt;
  }
  bool known = true;
};

TEST_F(ProgressBarTest, WrapsLoadersWhoseSizeMayBeUnknown) {
  Pipe pipe;
  for ([[maybe_unused]] const int batch : progress(Loader{true}, {.fd = pipe.in.get()})) {
  }
  for ([[maybe_unused]] const int batch : progress(Loader{false}, {.fd = pipe.in.get()})) {
  }
  const std::string text = pipe.text();
  EXPECT_TRUE(std::regex_search(text, std::regex("^4/4 \\(100%\\)[^\n]*\n4it \\["))) << text;
}

TEST_F(ProgressBarTest, ABreakOrAnExceptionLeavesTheCountWhereItWas) {
  Pipe pipe;
  const std::vector<int> values(10);
  try {
    int i = 0;
    for ([[maybe_unused]] const int value : progress(values, {.fd = pipe.in.get()})) {
      if (++i == 4) throw std::runtime_error("stop");
    }
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(pipe.text().starts_with("3/10 (30%)"));
}

TEST_F(ProgressBarTest, AnUpdateThatDrawsNothingCostsNanoseconds) {
  Pipe pipe;
  ProgressBar bar({.fd = pipe.in.get(), .line_interval = milliseconds(60'000)});
  constexpr int kUpdates = 1'000'000;
  auto best = std::chrono::nanoseconds::max();
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kUpdates; ++i) bar.update();
    best = std::min(best, std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
  }
  const double ns = static_cast<double>(best.count()) / kUpdates;
  RecordProperty("ns_per_update", std::to_string(ns));
  EXPECT_LT(ns, 500) << "a system call at each update would cost about this much";
}

TEST_F(ProgressBarTest, UpdatesOfManyThreadsAllCount) {
  Pipe pipe;
  ProgressBar bar({.total = 40'000, .fd = pipe.in.get(), .line_interval = milliseconds(1)});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10'000; ++i) bar.update();
      });
    }
  }
  bar.close();
  EXPECT_EQ(bar.done(), 40'000);
  EXPECT_NE(pipe.text().find("40000/40000 (100%)"), std::string::npos);
}

}  // namespace
}  // namespace accelerate
