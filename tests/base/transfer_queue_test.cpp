#include "accelerate/base/transfer_queue.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "tests/base/random_bytes.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::random_bytes;

constexpr std::size_t kPieceUnit = DirectFile::kAlignment;

class TransferQueueTest : public ::testing::Test {
 protected:
  DirectFile make_file(std::size_t size) { return DirectFile::create(folder_.path() / "a", size); }

  testing::TemporaryFolder folder_;
};

AlignedBytes read_at_once(const DirectFile& file) {
  AlignedBytes all(file.size_bytes());
  file.read(0, all.bytes());
  return all;
}

bool are_equal(const AlignedBytes& a, const AlignedBytes& b) {
  return std::ranges::equal(a.bytes(), b.bytes());
}

// Cuts `size` bytes into parts of all lengths, and returns their ends.
std::vector<std::size_t> random_ends(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> ends;
  for (std::size_t end = 0; end < size;) {
    end = std::min(size, end + 1 + random() % (std::size_t{1} << random() % 18));
    ends.push_back(end);
  }
  return ends;
}

TEST_F(TransferQueueTest, CarriesOutManyTransfersAtOnce) {
  constexpr std::size_t kSize = 3'000'017;
  const DirectFile file = make_file(kSize);
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    TransferQueue queue({.threads = seed, .piece_bytes = seed * 5000});
    const AlignedBytes written = random_bytes(kSize, seed), found(kSize);
    const auto ends = random_ends(kSize, seed);
    std::vector<Transfer> transfers;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      transfers.push_back(queue.write(file, begin, written.bytes().subspan(begin, end - begin)));
      begin = end;
    }
    for (Transfer& transfer : transfers) transfer.wait();
    EXPECT_TRUE(are_equal(read_at_once(file), written)) << seed;
    begin = 0;
    for (const std::size_t end : ends) {
      transfers.push_back(queue.read(file, begin, found.bytes().subspan(begin, end - begin)));
      begin = end;
    }
    for (Transfer& transfer : transfers) transfer.wait();
    EXPECT_TRUE(are_equal(found, written)) << seed;
    EXPECT_EQ(queue.bytes_read(), kSize);
    EXPECT_EQ(queue.bytes_written(), kSize);
  }
}

TEST_F(TransferQueueTest, ReadsAndWritesAtTheSameTime) {
  constexpr std::size_t kHalf = 200 * kPieceUnit;
  const DirectFile file = make_file(2 * kHalf);
  const AlignedBytes first = random_bytes(kHalf, 1), second = random_bytes(kHalf, 2);
  file.write(0, first.bytes());
  TransferQueue queue({.threads = 2, .piece_bytes = kPieceUnit});
  const AlignedBytes found(kHalf);
  Transfer write = queue.write(file, kHalf, second.bytes());
  Transfer read = queue.read(file, 0, found.bytes());
  write.wait();
  read.wait();
  EXPECT_TRUE(are_equal(found, first));
  queue.read(file, kHalf, found.bytes()).wait();
  EXPECT_TRUE(are_equal(found, second));
}

TEST_F(TransferQueueTest, OneThreadEndsTransfersInTheirOrder) {
  const DirectFile file = make_file(100 * kPieceUnit);
  TransferQueue queue({.threads = 1, .piece_bytes = kPieceUnit});
  const AlignedBytes long_one(100 * kPieceUnit), short_one(1);
  const Transfer first = queue.read(file, 0, long_one.bytes());
  queue.read(file, 0, short_one.bytes()).wait();
  EXPECT_TRUE(first.is_done());
}

TEST_F(TransferQueueTest, NothingIsDoneAtOnce) {
  const DirectFile file = make_file(10);
  TransferQueue queue;
  Transfer transfers[] = {Transfer(), queue.read(file, 99, {}), queue.write(file, 99, {})};
  for (Transfer& transfer : transfers) {
    EXPECT_TRUE(transfer.is_done());
    transfer.wait();
  }
}

TEST_F(TransferQueueTest, RefusesNoThreadsAndNoBytes) {
  EXPECT_THROW(TransferQueue({.threads = 0}), UsageError);
  EXPECT_THROW(TransferQueue({.piece_bytes = 0}), UsageError);
}

TEST_F(TransferQueueTest, TellsAnErrorEachTimeAndGoesOn) {
  const DirectFile file = make_file(10 * kPieceUnit);
  std::filesystem::resize_file(file.path(), 2 * kPieceUnit + 10);
  TransferQueue queue({.threads = 1, .piece_bytes = 100});
  const AlignedBytes found(10 * kPieceUnit);
  Transfer transfer = queue.read(file, kPieceUnit - 96, found.bytes().subspan(kPieceUnit - 96));
  for (int i = 0; i < 2; ++i) {
    testing::expect_has(message_of<FileError>([&] { transfer.wait(); }),
                        "it ends after " + std::to_string(2 * kPieceUnit + 10) + " bytes");
    EXPECT_TRUE(transfer.is_done());
  }
  EXPECT_EQ(queue.bytes_read(), 96 + kPieceUnit) << "pieces end where blocks of the file end";
  queue.read(file, 0, found.bytes().first(kPieceUnit)).wait();
  EXPECT_EQ(queue.bytes_read(), 96 + 2 * kPieceUnit);
}

// Memory with a page that nobody may touch, so that one piece of several fails.
class HoledMemory {
 public:
  HoledMemory(std::size_t pages, std::size_t hole)
      : size_(pages * kPieceUnit),
        data_(static_cast<std::byte*>(
            ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(::mprotect(data_ + hole * kPieceUnit, kPieceUnit, PROT_NONE), 0);
  }
  ~HoledMemory() { ::munmap(data_, size_); }
  HoledMemory(const HoledMemory&) = delete;
  HoledMemory& operator=(const HoledMemory&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::size_t size_;
  std::byte* data_;
};

TEST_F(TransferQueueTest, LeavesOutWhatFollowsAFailure) {
  const DirectFile file = make_file(10 * kPieceUnit);
  const AlignedBytes written = random_bytes(10 * kPieceUnit, 1);
  file.write(0, written.bytes());
  const HoledMemory memory(10, 3);
  TransferQueue queue({.threads = 1, .piece_bytes = kPieceUnit});
  Transfer failing = queue.read(file, 0, memory.bytes());
  const AlignedBytes found(10 * kPieceUnit);
  queue.read(file, 0, found.bytes()).wait();
  EXPECT_TRUE(are_equal(found, written)) << "another transfer is not left out";
  testing::expect_has(message_of<FileError>([&] { failing.wait(); }),
                      "at offset " + std::to_string(3 * kPieceUnit));
  EXPECT_EQ(memory.bytes()[2 * kPieceUnit], written.bytes()[2 * kPieceUnit]);
  EXPECT_TRUE(std::ranges::all_of(memory.bytes().subspan(4 * kPieceUnit),
                                  [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_EQ(queue.bytes_read(), 13 * kPieceUnit);
}

TEST_F(TransferQueueTest, FinishesWhenItIsDestroyed) {
  constexpr std::size_t kSize = 300 * kPieceUnit;
  const DirectFile file = make_file(kSize);
  const AlignedBytes written = random_bytes(kSize, 1);
  Transfer outlives;
  {
    TransferQueue queue({.threads = 3, .piece_bytes = kPieceUnit});
    outlives = queue.write(file, 0, written.bytes());
  }
  EXPECT_TRUE(outlives.is_done());
  outlives.wait();
  EXPECT_TRUE(are_equal(read_at_once(file), written));
}

TEST_F(TransferQueueTest, ATransferThatGoesIsDoneFirst) {
  constexpr std::size_t kSize = 300 * kPieceUnit;
  const DirectFile file = make_file(kSize);
  TransferQueue queue({.threads = 2, .piece_bytes = kPieceUnit});
  {
    const AlignedBytes written = random_bytes(kSize, 1);
    const Transfer forgotten = queue.write(file, 0, written.bytes());
  }
  EXPECT_EQ(queue.bytes_written(), kSize);
  const AlignedBytes found(kSize);
  Transfer transfer = queue.read(file, 0, found.bytes());
  transfer = Transfer();
  EXPECT_EQ(queue.bytes_read(), kSize) << "when it is replaced";
  std::optional<Transfer> failing = queue.read(file, 1, found.bytes());
  EXPECT_NO_THROW(failing.reset());
}

// Returns the masks of blocked signals of this process's threads of a name.
std::vector<std::string> blocked_signals_of(const std::string& name) {
  std::vector<std::string> masks;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    std::string line, name_line;
    std::getline(status, name_line);
    if (name_line != "Name:\t" + name) continue;
    while (std::getline(status, line) && !line.starts_with("SigBlk:")) {
    }
    masks.push_back(line);
  }
  return masks;
}

TEST_F(TransferQueueTest, StartsThreadsThatTakeNoSignalsWhenFirstUsed) {
  const DirectFile file = make_file(10);
  TransferQueue queue({.threads = 3});
  const AlignedBytes found(10);
  EXPECT_TRUE(blocked_signals_of("file-read").empty());
  // A thread names itself after it has begun; as many transfers end only once threads have names.
  while (blocked_signals_of("file-read").size() < 3) queue.read(file, 0, found.bytes()).wait();
  for (const std::string& mask : blocked_signals_of("file-read")) {
    // SIGKILL and SIGSTOP cannot be blocked, nor two signals of the C library.
    EXPECT_EQ(mask, "SigBlk:\tfffffffe7fbbfeff");
  }
  EXPECT_TRUE(blocked_signals_of("file-write").empty());
}

}  // namespace
}  // namespace accelerate
