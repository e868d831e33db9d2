#include "accelerate/base/write_behind.h"

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/faulty_file_system.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::FaultyFileSystem;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Bytes that are nowhere alike.
std::string text(std::size_t size) {
  std::string all(size, '\0');
  std::uint32_t state = 1;
  for (char& c : all) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return all;
}

TEST(WriteBehind, WritesAllBytesInTheirOrder) {
  const testing::TemporaryFolder folder;
  const std::string all = text(50 * kMiB + 7);
  for (const bool durable : {true, false}) {
    const auto path = folder.path() / (durable ? "synced" : "cached");
    const auto file = real_file_system().create(path);
    std::uint64_t counted = 0;
    WriteBehind behind(*file, {.size_bytes = all.size(),
                               .durable = durable,
                               .counter = [&](std::uint64_t bytes) { counted += bytes; }});
    std::string_view rest = all;
    for (std::size_t piece = 1; !rest.empty(); piece = piece * 3 + 1) {
      behind.append(rest.substr(0, piece));
      rest.remove_prefix(std::min(piece, rest.size()));
    }
    behind.finish();
    file->close();
    EXPECT_EQ(counted, all.size());
    EXPECT_TRUE(real_file_system().read(path, 100 * kMiB) == all) << path;
  }
}

// Remembers what it is asked, and is as slow as told.
class Recorder final : public WritableFile {
 public:
  explicit Recorder(std::chrono::milliseconds delay) : delay_(delay) {}
  void write(std::string_view bytes) override {
    std::this_thread::sleep_for(delay_);
    if (bypassed > 0 && bytes.size() >= kMiB) long_places.push_back(place_);
    place_ += bytes.size();
  }
  void reserve(std::uint64_t size_bytes) override { reserved = size_bytes; }
  void bypass_cache() noexcept override { ++bypassed; }
  void start_writeback(std::uint64_t, std::uint64_t) noexcept override { ++begun; }
  void sync() override {}
  void close() override {}

  std::uint64_t reserved = 0;
  int bypassed = 0, begun = 0;
  std::vector<std::uint64_t> long_places;  // Of long writes after the bypass began.

 private:
  std::chrono::milliseconds delay_;
  std::uint64_t place_ = 0;
};

Recorder recorded(std::chrono::milliseconds delay, bool durable, std::size_t size) {
  Recorder file(delay);
  WriteBehind behind(file, {.size_bytes = size, .durable = durable});
  behind.append(std::string(size, 'x'));
  behind.finish();
  return file;
}

TEST(WriteBehind, BypassesTheCacheForLargeFilesThatWillBeSynced) {
  using std::chrono::milliseconds;
  EXPECT_EQ(recorded(milliseconds(0), true, 40 * kMiB).bypassed, 1);
  EXPECT_EQ(recorded(milliseconds(0), true, 40 * kMiB).begun, 5);
  EXPECT_EQ(recorded(milliseconds(0), true, 40 * kMiB).reserved, 40 * kMiB);
  EXPECT_EQ(recorded(milliseconds(0), true, 20 * kMiB).bypassed, 0) << "too small";
}

TEST(WriteBehind, BypassesACacheThatIsSlow) {
  using std::chrono::milliseconds;
  EXPECT_EQ(recorded(milliseconds(20), false, 40 * kMiB).bypassed, 1) << "400 MiB a second";
  EXPECT_EQ(recorded(milliseconds(20), false, 20 * kMiB).bypassed, 0) << "too short to tell";
  EXPECT_EQ(recorded(milliseconds(0), false, 40 * kMiB).begun, 0);
}

// A bypass takes only what begins at a multiple of a page, whatever was written before it.
TEST(WriteBehind, AlignsWhatItWritesAfterTheCache) {
  Recorder file(std::chrono::milliseconds(20));
  WriteBehind behind(file, {.size_bytes = 80 * kMiB, .durable = false});
  behind.append("a header");
  behind.append(std::string(80 * kMiB, 'x'));
  behind.finish();
  ASSERT_GT(file.long_places.size(), 3U);
  for (const std::uint64_t place : std::span(file.long_places).subspan(1))
    EXPECT_EQ(place % WritableFile::kDirectAlignment, 0U);
}

// Also those of the thread, whose error comes with a later call.
TEST(WriteBehind, TellsEveryError) {
  const std::string all = text(20 * kMiB);
  for (std::size_t step = 0;; ++step) {
    FaultyFileSystem files({.fail_at = step});
    files.create_directories("/out");
    try {
      const auto file = files.create("/out/a");
      WriteBehind behind(*file, {.size_bytes = all.size()});
      behind.append(all);
      behind.finish();
      EXPECT_EQ(step, 5U) << "create, reserve, three writes";
      break;
    } catch (const FileError& error) {
      EXPECT_EQ(error.error_number(), ENOSPC);
    }
  }
}

}  // namespace
}  // namespace accelerate
