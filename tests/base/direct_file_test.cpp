#include "accelerate/base/direct_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "accelerate/base/error.h"
#include "tests/base/random_bytes.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::PlacedBytes;
using testing::random_bytes;

constexpr std::size_t kBlockBytes = DirectFile::kAlignment;

// A shared mapping of a whole file, to read and write.
class SharedMapping {
 public:
  explicit SharedMapping(const DirectFile& file)
      : size_(file.size_bytes()),
        data_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0)) {
    if (data_ == MAP_FAILED) throw FileError("map", file.path(), errno);
  }
  ~SharedMapping() { ::munmap(data_, size_); }
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), size_};
  }
  [[nodiscard]] std::size_t cached_pages() const {
    std::vector<unsigned char> is_cached((size_ + kBlockBytes - 1) / kBlockBytes);
    EXPECT_EQ(::mincore(data_, size_, is_cached.data()), 0);
    return static_cast<std::size_t>(
        std::ranges::count_if(is_cached, [](unsigned char page) { return (page & 1) != 0; }));
  }

 private:
  std::size_t size_;
  void* data_;
};

bool holds(std::span<const std::byte> found, std::span<const std::byte> expected) {
  return found.size() == expected.size() &&
         (found.empty() || std::memcmp(found.data(), expected.data(), found.size()) == 0);
}

AlignedBytes content_of(const DirectFile& file) {
  AlignedBytes all(file.size_bytes());
  file.read(0, all.bytes());
  return all;
}

bool lies_in_memory(const std::filesystem::path& folder) {
  struct statfs status{};
  return ::statfs(folder.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

class DirectFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path at(const char* name) const { return folder_.path() / name; }

  testing::TemporaryFolder folder_;
};

// A place in a file, and where the memory lies that is read or written.
struct Range {
  std::size_t offset, size, memory;
};

// Half of the offsets, sizes and addresses are aligned; sizes have all magnitudes.
Range random_range(std::mt19937& random, std::size_t file_bytes) {
  const auto below = [&](std::size_t end) { return random() % end; };
  const auto maybe_aligned = [&](std::size_t value) {
    return below(2) == 0 ? value : value / kBlockBytes * kBlockBytes;
  };
  const std::size_t offset = maybe_aligned(below(file_bytes));
  const std::size_t magnitude = std::size_t{1} << below(23);
  const std::size_t size = std::min(maybe_aligned(below(2 * magnitude)), file_bytes - offset);
  const std::size_t memories[] = {0, offset % kBlockBytes, below(kBlockBytes)};
  return {offset, size, memories[below(3)]};
}

// Does what a plain copy in memory does too, in turns through the file and through a mapping of it.
void compare_with_memory(const std::filesystem::path& path, std::uint32_t seed) {
  constexpr std::size_t kFileBytes = (std::size_t{5} << 20) + 777;
  const DirectFile file = DirectFile::create(path, kFileBytes);
  const SharedMapping mapping(file);
  std::vector<std::byte> expected(kFileBytes);
  std::mt19937 random(seed);
  for (int i = 0; i < 150; ++i) {
    const Range range = random_range(random, kFileBytes);
    SCOPED_TRACE(::testing::Message() << "step " << i << ": " << range.size << " bytes at "
                                      << range.offset << ", memory " << range.memory);
    const PlacedBytes memory(range.size, range.memory);
    const auto place = std::span(expected).subspan(range.offset, range.size);
    const auto mapped = mapping.bytes().subspan(range.offset, range.size);
    switch (random() % 4) {
      case 0:
        file.read(range.offset, memory.bytes());
        ASSERT_TRUE(holds(memory.bytes(), place));
        break;
      case 1:
        ASSERT_TRUE(holds(mapped, place));
        break;
      default:
        const AlignedBytes bytes = random_bytes(range.size, random());
        std::ranges::copy(bytes.bytes(), place.begin());
        std::ranges::copy(bytes.bytes(), memory.bytes().begin());
        if (random() % 3 == 0) {
          std::ranges::copy(memory.bytes(), mapped.begin());
        } else {
          file.write(range.offset, memory.bytes());
        }
    }
  }
  EXPECT_TRUE(holds(content_of(file).bytes(), expected));
  EXPECT_TRUE(holds(content_of(DirectFile::open(path)).bytes(), expected));
}

TEST_F(DirectFileTest, HoldsWhatMemoryWouldHold) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    compare_with_memory(at(std::to_string(seed).c_str()), seed);
  }
}

// Some kernels refuse direct access there, others take it and use the cache.
TEST_F(DirectFileTest, HoldsWhatMemoryWouldHoldOnAFileSystemInMemory) {
  if (!lies_in_memory("/dev/shm")) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const std::string name = "/dev/shm/direct_file_test." + std::to_string(::getpid());
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    compare_with_memory(name, seed);
    std::filesystem::remove(name);
  }
}

TEST_F(DirectFileTest, LeavesNothingInTheCache) {
  constexpr std::size_t kBlocks = 64;
  const DirectFile file = DirectFile::create(at("a"), kBlocks * kBlockBytes);
  if (!file.is_direct() || lies_in_memory(folder_.path())) {
    GTEST_SKIP() << "no direct access in " << folder_.path();
  }
  const SharedMapping mapping(file);
  const PlacedBytes aligned(kBlocks * kBlockBytes, 0), other(kBlocks * kBlockBytes, 64);
  for (const PlacedBytes* memory : {&aligned, &other}) {
    file.write(0, memory->bytes());
    file.read(0, memory->bytes());
    EXPECT_EQ(mapping.cached_pages(), 0);
  }
  const auto part = aligned.bytes().subspan(64, (kBlocks - 2) * kBlockBytes);
  file.read(kBlockBytes + 64, part);
  EXPECT_EQ(mapping.cached_pages(), 0) << "the edges of a read";
  file.write(kBlockBytes + 64, part);
  // The system may put what lies around an edge into the cache too.
  EXPECT_LT(mapping.cached_pages(), kBlocks / 2) << "the edges of a write";
}

TEST_F(DirectFileTest, AgreesWithAMapping) {
  const DirectFile file = DirectFile::create(at("a"), 100 * kBlockBytes);
  const SharedMapping mapping(file);
  EXPECT_EQ(mapping.bytes()[7 * kBlockBytes], std::byte{0}) << "is in the cache from now on";
  const AlignedBytes written = random_bytes(100 * kBlockBytes, 1);
  file.write(0, written.bytes());
  EXPECT_TRUE(holds(mapping.bytes(), written.bytes()));
  std::ranges::fill(mapping.bytes().subspan(5000, 50000), std::byte{3});
  std::ranges::fill(written.bytes().subspan(5000, 50000), std::byte{3});
  EXPECT_TRUE(holds(content_of(file).bytes(), written.bytes()));
}

// Ranges that share blocks, beside a mapping that holds pages of the file.
TEST_F(DirectFileTest, WritesOfNeighboursMayOverlapInTime) {
  constexpr std::size_t kThreads = 4, kRange = 3 * kBlockBytes + 500, kRanges = 80;
  const DirectFile file = DirectFile::create(at("a"), kRanges * kRange);
  const SharedMapping mapping(file);
  const AlignedBytes written = random_bytes(kRanges * kRange, 1);
  for (int round = 0; round < 5; ++round) {
    for (std::byte& byte : written.bytes()) byte ^= std::byte{0xFF};
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < kRanges; i += kThreads) {
          file.write(i * kRange, written.bytes().subspan(i * kRange, kRange));
        }
      });
    }
    threads.clear();
    ASSERT_TRUE(holds(content_of(file).bytes(), written.bytes())) << round;
    ASSERT_TRUE(holds(mapping.bytes(), written.bytes())) << round;
  }
}

TEST_F(DirectFileTest, IsMadeOfZerosForItsOwnerAlone) {
  const DirectFile file = DirectFile::create(at("a"), 3 * kBlockBytes + 5);
  EXPECT_EQ(file.path(), at("a"));
  EXPECT_EQ(file.size_bytes(), 3 * kBlockBytes + 5);
  EXPECT_TRUE(holds(content_of(file).bytes(), std::vector<std::byte>(3 * kBlockBytes + 5)));
  struct stat status{};
  ASSERT_EQ(::stat(at("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600);
  EXPECT_EQ(status.st_size, 3 * kBlockBytes + 5);
  EXPECT_GE(status.st_blocks * 512, status.st_size) << "disk space is reserved";
}

TEST_F(DirectFileTest, ReadsAndWritesNothing) {
  const DirectFile file = DirectFile::create(at("a"), 10);
  file.read(10, {});
  file.write(10, {});
  EXPECT_EQ(DirectFile::create(at("b"), 0).size_bytes(), 0);
}

TEST_F(DirectFileTest, MayBeMoved) {
  DirectFile first = DirectFile::create(at("a"), kBlockBytes);
  DirectFile second = DirectFile::create(at("b"), 10);
  const AlignedBytes written = random_bytes(kBlockBytes, 1);
  second = std::move(first);
  second.write(0, written.bytes());
  const DirectFile third = std::move(second);
  EXPECT_EQ(third.path(), at("a"));
  EXPECT_TRUE(holds(content_of(third).bytes(), written.bytes()));
}

TEST_F(DirectFileTest, TellsWhereTheFileEnds) {
  const auto path = folder_.write("a", std::string(5000, 'x'));
  const DirectFile file = DirectFile::open(path);
  for (const std::size_t place : {0, 4000}) {
    const PlacedBytes memory(1001, place);
    file.read(4000, memory.bytes().first(1000));
    EXPECT_EQ(memory.bytes()[999], std::byte{'x'});
    const auto message = message_of<FileError>([&] { file.read(4000, memory.bytes()); });
    testing::expect_has(message, "of '" + path.string() + "'");
    testing::expect_has(message, "it ends after 5000 bytes");
  }
  const PlacedBytes one(1, 0);
  for (const std::uint64_t offset :
       {std::uint64_t{5000}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    testing::expect_has(message_of<FileError>([&] { file.read(offset, one.bytes()); }),
                        "cannot read 1 bytes at offset " + std::to_string(offset));
  }
  EXPECT_EQ(file.is_direct(), DirectFile::open(path).is_direct()) << "these are no refusals";
}

TEST_F(DirectFileTest, ReadsWhatWasAppendedLater) {
  const auto path = folder_.write("a", "x");
  const DirectFile file = DirectFile::open(path);
  std::ofstream(path, std::ios::app) << std::string(9000, 'y');
  const PlacedBytes memory(9000, 1);
  file.read(1, memory.bytes());
  EXPECT_EQ(memory.bytes()[8999], std::byte{'y'});
}

TEST_F(DirectFileTest, IsNotWrittenBeyondItsEnd) {
  const DirectFile file = DirectFile::create(at("a"), 5000);
  const PlacedBytes two(2, 0);
  for (const std::uint64_t offset : {std::uint64_t{4999}, ~std::uint64_t{0}}) {
    testing::expect_has(message_of<FileError>([&] { file.write(offset, two.bytes()); }),
                        "it was made 5000 bytes long");
  }
  EXPECT_EQ(std::filesystem::file_size(at("a")), 5000);
}

TEST_F(DirectFileTest, IsNotWrittenWhenOpenedToRead) {
  const auto path = folder_.write("a", "text");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const DirectFile file = DirectFile::open(path);
  const PlacedBytes memory(4, 0);
  file.read(0, memory.bytes());
  EXPECT_EQ(std::memcmp(memory.bytes().data(), "text", 4), 0);
  testing::expect_has(message_of<UsageError>([&] { file.write(0, memory.bytes()); }),
                      "it was opened to read");
}

int error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const FileError& error) {
    return error.error_number();
  }
  return 0;
}

TEST_F(DirectFileTest, RefusesPathsThatItCannotUse) {
  const auto path = folder_.write("a", "text");
  EXPECT_EQ(error_of([&] { (void)DirectFile::create(path, 10); }), EEXIST);
  EXPECT_EQ(std::filesystem::file_size(path), 4) << "it is not touched";
  EXPECT_EQ(error_of([&] { (void)DirectFile::create(at("none/a"), 10); }), ENOENT);
  EXPECT_EQ(error_of([&] { (void)DirectFile::open(at("none")); }), ENOENT);
  EXPECT_EQ(error_of([&] { (void)DirectFile::open(folder_.path()); }), EISDIR);
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  testing::expect_has(message_of<FileError>([&] { (void)DirectFile::open(at("fifo")); }),
                      "not a regular file");
}

TEST_F(DirectFileTest, LeavesNoFileThatMayNotBeSoLong) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const auto before = signal(SIGXFSZ, SIG_DFL);
  const rlimit small{kBlockBytes, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_EQ(error_of([&] { (void)DirectFile::create(at("a"), 2 * kBlockBytes); }), EFBIG);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(error_of([&] { (void)DirectFile::create(at("b"), ~std::uint64_t{0}); }), EFBIG);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Its files have no direct access, and their size is not known beforehand.
TEST_F(DirectFileTest, ReadsThroughTheCacheWhereNothingElseIsPossible) {
  const DirectFile file = DirectFile::open("/proc/version");
  EXPECT_FALSE(file.is_direct());
  const PlacedBytes memory(5, 0);
  file.read(0, memory.bytes());
  EXPECT_EQ(std::memcmp(memory.bytes().data(), "Linux", 5), 0);
}

}  // namespace
}  // namespace accelerate
