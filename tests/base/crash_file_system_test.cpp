// The double that loses power: that it is as unkind as it says, and that a missing sync is found.
#include "tests/support/crash_file_system.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/faulty_file_system.h"

namespace accelerate {
namespace {

using testing::CrashFileSystem;
using testing::CrashOptions;
using testing::CrashPoint;
using testing::DiskState;

using Contents = std::map<std::string, std::string>;

// The different contents of the disk after a power cut at the very end.
std::set<Contents> files_after_the_end(const CrashFileSystem& files) {
  std::set<Contents> found;
  files.for_each_crash([&](const CrashPoint& point, const DiskState& disk) {
    if (point.passed("end")) found.insert(disk.files);
  });
  return found;
}

TEST(CrashFileSystem, DataThatWasNotSyncedIsLostTornReorderedOrZeros) {
  CrashFileSystem files;
  files.put("/d/a", "");
  const auto file = files.append("/d/a", 0);
  file->write("12");
  file->write("34");
  files.mark("end");
  EXPECT_EQ(files_after_the_end(files), (std::set<Contents>{{{"/d/a", ""}},
                                                            {{"/d/a", "12"}},
                                                            {{"/d/a", std::string("\0\0\0"
                                                                                  "4",
                                                                                  4)}},
                                                            {{"/d/a", std::string(4, '\0')}},
                                                            {{"/d/a", "1234"}}}));
  file->sync();
  files.mark("synced");
  files.for_each_crash([](const CrashPoint& point, const DiskState& disk) {
    if (point.passed("synced")) {
      EXPECT_EQ(disk.files.at("/d/a"), "1234");
    }
  });
}

TEST(CrashFileSystem, NamesThatWereNotSyncedAreLostInAnyCombination) {
  CrashFileSystem files;
  files.put("/d/old", "o");
  files.put_folder("/d");
  files.create("/d/new")->sync();
  files.rename("/d/old", "/d/moved");
  files.mark("end");
  EXPECT_EQ(files_after_the_end(files), (std::set<Contents>{{{"/d/old", "o"}},
                                                            {{"/d/old", "o"}, {"/d/new", ""}},
                                                            {{"/d/moved", "o"}},
                                                            {{"/d/moved", "o"}, {"/d/new", ""}}}));
  files.sync_directory("/d");
  files.mark("synced");
  files.for_each_crash([](const CrashPoint& point, const DiskState& disk) {
    if (point.passed("synced")) {
      EXPECT_EQ(disk.files, (Contents{{"/d/moved", "o"}, {"/d/new", ""}}));
    }
  });
}

TEST(CrashFileSystem, AFolderIsAsSafeAsItsNameInItsParent) {
  CrashFileSystem files;
  files.put_folder("/d");
  files.create_directories("/d/new");
  files.create("/d/new/a")->sync();
  files.sync_directory("/d/new");
  files.mark("end");
  EXPECT_EQ(files_after_the_end(files), (std::set<Contents>{{}, {{"/d/new/a", ""}}}));
}

TEST(CrashFileSystem, AMovedFolderKeepsItsFilesAndARemovedTreeMayBeHalfThere) {
  CrashFileSystem files;
  files.put("/d/x/a", "a");
  files.put("/d/x/b", "b");
  files.rename("/d/x", "/d/y");
  files.sync_directory("/d");
  EXPECT_EQ(files.now().files, (Contents{{"/d/y/a", "a"}, {"/d/y/b", "b"}}));
  EXPECT_TRUE(files.remove_tree("/d/y"));
  EXPECT_EQ(files.now(), (DiskState{{}, {"/d"}}));
  files.mark("end");
  EXPECT_TRUE(files_after_the_end(files).contains({{"/d/y/b", "b"}}));
  EXPECT_TRUE(files_after_the_end(files).contains({{"/d/y/a", "a"}, {"/d/y/b", "b"}}));
}

TEST(CrashFileSystem, ADiskThatWasFoundCanBeUsedAgain) {
  CrashFileSystem files(DiskState{{{"/d/a", "text"}}, {"/d", "/e"}});
  EXPECT_EQ(files.read("/d/a", 10), "text");
  EXPECT_EQ(files.list("/"), (std::vector<std::string>{"d", "e"}));
  EXPECT_EQ(files.status("/e").kind, FileKind::directory);
  EXPECT_THROW((void)files.read("/e", 10), FileError);
  EXPECT_THROW(files.create("/none/a"), FileError);
  EXPECT_THROW(files.rename("/d/none", "/d/b"), FileError);
  EXPECT_THROW(files.remove("/d"), FileError);
  EXPECT_EQ(files.syncs(), std::vector<std::string>());
}

TEST(CrashFileSystem, SeveralThreadsMayUseIt) {
  CrashFileSystem files;
  files.put_folder("/d");
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&, rank] {
        const std::string name = "/d/" + std::to_string(rank);
        write_file_atomically(files, name, name);
      });
    }
  }
  EXPECT_EQ(files.now().files.size(), 4);
  EXPECT_EQ(files.syncs().size(), 8);
}

TEST(CrashFileSystem, ALockHasOneHolder) {
  CrashFileSystem files;
  files.put_folder("/d");
  auto lock = files.lock("/d");
  EXPECT_THROW((void)files.lock("/d/"), FolderInUse);
  lock.reset();
  (void)files.lock("/d");
}

// The faults that a power cut can show in a program that replaces a file twice.
std::vector<std::string> faults(const CrashFileSystem& files, const CrashOptions& options) {
  std::vector<std::string> found;
  files.for_each_crash(
      [&](const CrashPoint& point, const DiskState& disk) {
        const auto file = disk.files.find("/d/state");
        const std::string text = file == disk.files.end() ? "nothing" : file->second;
        const bool fine = point.passed("second")  ? text == "second"
                          : point.passed("first") ? text == "first" || text == "second"
                                                  : text == "old" || text == "first";
        if (!fine) found.push_back("after " + point.last + ": '" + text + "'");
      },
      options);
  return found;
}

TEST(CrashFileSystem, AtomicFileHasNoFaultAndOneAsSoonAsAnySyncIsMissing) {
  CrashFileSystem files;
  files.put("/d/state", "old");
  for (const std::string& text : {std::string("first"), std::string("second")}) {
    write_file_atomically(files, "/d/state", text);
    files.mark(text);
  }
  EXPECT_EQ(faults(files, {}), std::vector<std::string>());
  const std::vector<std::string> syncs = files.syncs();
  ASSERT_EQ(syncs.size(), 4);
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    EXPECT_NE(faults(files, {.without_sync = i}), std::vector<std::string>())
        << "without '" << syncs[i] << "' nobody would notice";
  }
}

TEST(FaultyFileSystem, FailsInTheMiddleOfAWrite) {
  testing::FaultyFileSystem files({.fail_at = 2, .error = EIO});
  files.put_folder("/d");
  const auto file = files.create("/d/a");
  file->reserve(8);
  EXPECT_THROW(file->write("1234"), FileError);
  EXPECT_EQ(files.visible().at("/d/a"), std::string("12\0\0\0\0\0\0", 8));
}

TEST(FaultyFileSystem, MakingFoldersFailsWhenItIsToBeAStep) {
  testing::FaultyFileSystem files({.fail_at = 0, .folders_are_steps = true});
  EXPECT_THROW(files.create_directories("/d"), FileError);
  files.create_directories("/d");
}

}  // namespace
}  // namespace accelerate
