#include "accelerate/base/lost_pages.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/base/file_system.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

constexpr std::size_t kPage = 4096, kPages = 64;

class LostPages : public ::testing::Test {
 protected:
  LostPages() { folder_.write("a", std::string(kPage * kPages, 'x')); }
  [[nodiscard]] std::filesystem::path file() const { return folder_.path() / "a"; }
  void cut(std::size_t pages) const { std::filesystem::resize_file(file(), kPage * pages); }

  testing::TemporaryFolder folder_;
};

long sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0L, [](long sum, std::byte byte) {
    return sum + std::to_integer<long>(byte);
  });
}

TEST_F(LostPages, AreZerosAndToldUntilTheMappingIsGone) {
  auto content = copy_on_write_file_system().map(file());
  check_for_lost_pages();
  cut(3);
  EXPECT_EQ(sum_of(content->bytes()), static_cast<long>('x' * kPage * 3));
  const auto message = testing::message_of<FileError>(check_for_lost_pages);
  testing::expect_has(message, file().string());
  testing::expect_has(message, "cut short");
  AtomicFile other(real_file_system(), folder_.path() / "b");
  EXPECT_THROW(other.commit(), FileError);
  content.reset();
  check_for_lost_pages();
}

// The system fills the page up with zeros and raises no signal.
TEST_F(LostPages, ACutWithinTheLastPageIsToldToo) {
  const auto content = copy_on_write_file_system().map(file());
  std::filesystem::resize_file(file(), kPage * kPages - 1);
  EXPECT_EQ(sum_of(content->bytes()), static_cast<long>('x' * (kPage * kPages - 1)));
  EXPECT_THROW(check_for_lost_pages(), FileError);
}

TEST_F(LostPages, AnotherFileOfTheNameIsNoLoss) {
  const auto content = copy_on_write_file_system().map(file());
  folder_.write("b", "short");
  std::filesystem::rename(folder_.path() / "b", file());
  check_for_lost_pages();
  EXPECT_EQ(sum_of(content->bytes()), static_cast<long>('x' * kPage * kPages));
}

TEST_F(LostPages, MayBeTouchedByThreadsAtOnce) {
  const auto content = copy_on_write_file_system().map(file());
  cut(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(sum_of(content->bytes()), 0); });
  for (auto& thread : threads) thread.join();
  EXPECT_THROW(check_for_lost_pages(), FileError);
}

using LostPagesDeathTest = LostPages;

TEST_F(LostPagesDeathTest, LeavesOtherBusErrorsToTheHandlerBefore) {
  const auto touch = [&](bool handled) {
    if (handled) std::signal(SIGBUS, [](int) { std::_Exit(42); });
    const auto guarded = copy_on_write_file_system().map(file());
    const auto plain = real_file_system().map(file());
    cut(0);
    std::_Exit(sum_of(plain->bytes()) == 0 ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A process without our handler yet.
  EXPECT_EXIT(touch(true), ::testing::ExitedWithCode(42), "");
  EXPECT_EXIT(touch(false), ::testing::KilledBySignal(SIGBUS), "");
  const auto guarded = copy_on_write_file_system().map(file());
  EXPECT_EXIT(std::raise(SIGBUS), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace accelerate
