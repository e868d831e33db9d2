#include "accelerate/base/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <regex>
#include <thread>

#include "accelerate/base/descriptor.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

class RealFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path at(const std::string& name) const {
    return folder_.path() / name;
  }

  testing::TemporaryFolder folder_;
  FileSystem& files_ = real_file_system();
};

std::string text_of(const FileContent& content) {
  return {reinterpret_cast<const char*>(content.bytes().data()), content.bytes().size()};
}

TEST_F(RealFiles, CreateWritesReadsAndMapsBack) {
  const auto file = files_.create(at("a"));
  file->write("one, ");
  file->write("two");
  file->sync();
  file->close();
  EXPECT_EQ(files_.read(at("a"), 100), "one, two");
  EXPECT_EQ(text_of(*files_.map(at("a"))), "one, two");
  EXPECT_THROW(files_.create(at("a")), FileError);
}

TEST_F(RealFiles, AMappingOutlivesTheNameOfItsFile) {
  folder_.write("a", "content");
  const auto content = files_.map(at("a"));
  EXPECT_TRUE(files_.remove(at("a")));
  EXPECT_EQ(text_of(*content), "content");
}

TEST_F(RealFiles, AnEmptyFileMapsToNothing) {
  folder_.write("a", "");
  EXPECT_EQ(files_.map(at("a"))->bytes().size(), 0);
  EXPECT_EQ(files_.read(at("a"), 0), "");
}

TEST_F(RealFiles, ReadRefusesMoreThanAllowedAndReachesTheEndOfProcFiles) {
  folder_.write("a", std::string(10'000, 'x'));
  EXPECT_EQ(files_.read(at("a"), 10'000).size(), 10'000);
  EXPECT_THROW((void)files_.read(at("a"), 9'999), FileError);
  EXPECT_NE(files_.read("/proc/self/status", 1 << 16).find("VmRSS"), std::string::npos);
  EXPECT_THROW((void)files_.read("/proc/self/status", 10), FileError);
}

TEST_F(RealFiles, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {at("fifo"), folder_.path(), std::filesystem::path("/dev/zero"), at("none")}) {
    EXPECT_THROW((void)files_.read(path, 100), FileError) << path;
    EXPECT_THROW((void)files_.map(path), FileError) << path;
  }
}

TEST_F(RealFiles, StatusTellsKindAndSize) {
  folder_.write("a", "12345");
  EXPECT_EQ(files_.status(at("a")).kind, FileKind::file);
  EXPECT_EQ(files_.status(at("a")).size_bytes, 5);
  EXPECT_EQ(files_.status(folder_.path()).kind, FileKind::directory);
  EXPECT_EQ(files_.status("/dev/null").kind, FileKind::other);
  EXPECT_EQ(files_.status(at("none")).kind, FileKind::none);
  EXPECT_EQ(files_.status(at("a") / "below a file").kind, FileKind::none);
}

TEST_F(RealFiles, FoldersAreMadeListedSyncedAndRemoved) {
  files_.create_directories(at("x/y/z"));
  files_.create_directories(at("x/y/z"));
  folder_.write("x/b", "");
  folder_.write("x/a", "");
  EXPECT_EQ(files_.list(at("x")), (std::vector<std::string>{"a", "b", "y"}));
  files_.sync_directory(at("x"));
  files_.rename(at("x/y"), at("w"));
  EXPECT_TRUE(files_.remove(at("w/z")));
  EXPECT_FALSE(files_.remove(at("w/z")));
  EXPECT_THROW(files_.remove(at("x")), FileError);
  EXPECT_THROW(files_.sync_directory(at("none")), FileError);
  EXPECT_THROW((void)files_.list(at("none")), FileError);
}

TEST_F(RealFiles, ReserveLengthensWithZerosNeverShortensAndTakesTheRoom) {
  const auto file = files_.create(at("a"));
  file->write("12345");
  file->reserve(0);
  file->reserve(3);
  EXPECT_EQ(files_.read(at("a"), 100), "12345");
  file->reserve(1 << 20);
  EXPECT_EQ(files_.status(at("a")).size_bytes, 1 << 20);
  file->write("67");  // Goes on where the last write ended.
  EXPECT_EQ(files_.read(at("a"), 1 << 20).substr(0, 9), std::string("1234567\0\0", 9));
  struct stat status{};
  ASSERT_EQ(stat(at("a").c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 1 << 20);
}

TEST_F(RealFiles, ADiskWithoutRoomIsAnErrorOfReserve) {
  const auto file = files_.create(at("a"));
  for (const std::uint64_t size : {std::uint64_t{1} << 62, std::uint64_t{1} << 63}) {
    try {
      file->reserve(size);
      ADD_FAILURE() << size << " bytes were reserved";
    } catch (const FileError& error) {
      EXPECT_TRUE(error.error_number() == ENOSPC || error.error_number() == EFBIG) << error.what();
    }
  }
}

TEST_F(RealFiles, AFileThatMayNotGrowFailsInsideAWrite) {
  auto* const before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{4096, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto file = files_.create(at("a"));
  // The system takes the first 4096 bytes and refuses the rest: a short write, then an error.
  EXPECT_THROW(file->write(std::string(5000, 'x')), FileError);
  EXPECT_THROW(file->reserve(1 << 20), FileError);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(files_.status(at("a")).size_bytes, 4096);
}

// Whether or not this disk does it: long aligned pieces, then some that are not.
TEST_F(RealFiles, BypassingTheCacheWritesTheSameBytes) {
  constexpr std::size_t kLong = std::size_t{1} << 20;
  const std::unique_ptr<char, decltype(&std::free)> aligned(
      static_cast<char*>(std::aligned_alloc(WritableFile::kDirectAlignment, kLong)), &std::free);
  std::iota(aligned.get(), aligned.get() + kLong, '\0');
  const std::string_view piece(aligned.get(), kLong);
  const auto file = files_.create(at("a"));
  file->reserve(3 * kLong);
  file->bypass_cache();
  std::string expected;
  for (const auto& bytes : {piece, piece, piece.substr(3), std::string_view("tail"), piece}) {
    file->write(bytes);
    expected += bytes;
  }
  file->sync();
  file->close();
  EXPECT_EQ(files_.read(at("a"), 1 << 24), expected);
}

TEST_F(RealFiles, RemoveTreeFollowsNoLink) {
  folder_.write("kept/a", "kept");
  files_.create_directories(at("gone/x/y"));
  folder_.write("gone/x/b", "");
  std::filesystem::create_directory_symlink(at("kept"), at("gone/x/link"));
  std::filesystem::create_directory_symlink(at("kept"), at("link"));
  EXPECT_TRUE(files_.remove_tree(at("gone")));
  EXPECT_TRUE(files_.remove_tree(at("link")));
  EXPECT_FALSE(files_.remove_tree(at("gone")));
  EXPECT_EQ(files_.list(folder_.path()), std::vector<std::string>{"kept"});
  EXPECT_EQ(files_.read(at("kept/a"), 10), "kept");
}

TEST_F(RealFiles, ErrorsCarryPathNumberAndAPrintableSentence) {
  try {
    (void)files_.read(at("no\x1b[2Jne"), 100);
    FAIL() << "no error";
  } catch (const FileError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_EQ(error.path(), at("no\x1b[2Jne"));
    EXPECT_EQ(error.kind(), "FileError");
    EXPECT_TRUE(std::regex_match(
        error.what(), std::regex("cannot open '.*/no\\?\\[2Jne': No such file or directory")))
        << error.what();
  }
}

// The kernel raises SIGXFSZ, which would end this process.
TEST_F(RealFiles, ThatMayNotGrowAreAnErrorAndNoSignal) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<std::function<void(WritableFile&)>> ways = {
      [](WritableFile& file) { file.write(std::string(10'000, 'x')); },
      [](WritableFile& file) { file.reserve(10'000); }};
  std::vector<std::string> said;
  for (const auto& way : ways) {
    const auto file = files_.create(at(std::to_string(said.size())));
    said.push_back(testing::message_of<FileError>([&] { way(*file); }));
  }
  const auto appended = files_.append(at("log"), 0);
  said.push_back(
      testing::message_of<FileError>([&] { appended->write(std::string(10'000, 'x')); }));
  setrlimit(RLIMIT_FSIZE, &before);
  for (const auto& text : said) EXPECT_NE(text.find("`ulimit -f`"), std::string::npos) << text;
}

TEST(Descriptor, WriteFullyWaitsForAFullNonBlockingPipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const Descriptor out(ends[0]), in(ends[1]);
  const std::string sent(1 << 20, 'x');
  std::size_t received = 0;
  {
    const std::jthread reader([&] {
      std::string buffer(1 << 16, '\0');
      while (received < sent.size()) {
        const ssize_t n = read(out.get(), buffer.data(), buffer.size());
        if (n > 0) received += static_cast<std::size_t>(n);
      }
    });
    EXPECT_EQ(write_fully(in.get(), sent), 0);
  }
  EXPECT_EQ(received, sent.size());
}

TEST(Descriptor, WriteFullyReportsWhatWentWrong) {
  const Descriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(write_fully(full.get(), "x"), ENOSPC);
  EXPECT_EQ(write_fully(-1, "x"), EBADF);
  EXPECT_EQ(write_fully_at(full.get(), 7, "x"), ENOSPC);
  EXPECT_EQ(write_fully_at(-1, 0, "x"), EBADF);
}

TEST(Descriptor, ClosesOnceAndMoves) {
  Descriptor first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int fd = first.get();
  Descriptor second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_EQ(second.get(), fd);
  EXPECT_EQ(second.close(), 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace accelerate
