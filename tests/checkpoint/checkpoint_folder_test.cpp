#include "accelerate/checkpoint/checkpoint_folder.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/numbered_checkpoints.h"
#include "accelerate/checkpoint/planned_files.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_ranks;
using testing::TemporaryFolder;
using List = std::vector<std::string>;
using Path = std::filesystem::path;

FileSystem& disk() {
  return real_file_system();
}

// Each rank writes a file of its own, and `text` into it.
WriteFiles writer(const Communicator& ranks, const std::string& text) {
  const auto name = "rank_" + std::to_string(ranks.rank());
  return [name, text](const Path& folder) {
    return write_planned(disk(), folder, {{.name = name, .text = text}});
  };
}

std::string content(const Path& path) {
  return read_file(disk(), path, 1 << 20);
}

// Names in the folder, the lock's left out.
std::vector<std::string> names(const Path& folder) {
  auto all = disk().list(folder);
  std::erase(all, ".lock");
  return all;
}

TEST(CheckpointFolder, HoldsEveryRanksFilesAndTheirManifest) {
  const TemporaryFolder home;
  const Path folder = home.path() / "runs" / "a";
  run_ranks(3, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, folder, writer(ranks, "x"));
    const auto checked = check_checkpoint(disk(), ranks, folder);
    EXPECT_EQ(checked.folder, folder);
    EXPECT_EQ(checked.manifest.num_processes, 3);
  });
  EXPECT_EQ(names(folder), (List{"manifest.json", "rank_0", "rank_1", "rank_2"}));
  EXPECT_EQ(names(home.path() / "runs"), List{"a"});
}

TEST(CheckpointFolder, ReplacesACheckpointOfFewerRanks) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks(2, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, folder, writer(ranks, "old"));
  });
  run_ranks(1, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, folder, writer(ranks, "new"));
  });
  EXPECT_EQ(names(folder), (List{"manifest.json", "rank_0"}));
  EXPECT_EQ(content(folder / "rank_0"), "new");
  EXPECT_EQ(names(home.path()), List{"a"});
}

// A rank's failure is everyone's, and the checkpoint of before is whole.
TEST(CheckpointFolder, KeepsTheOldOneWhenAnyRankFails) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks(3, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, folder, writer(ranks, "old"));
    const auto failing = [&](const Path& temporary) -> std::vector<ManifestFile> {
      if (ranks.rank() == 1) throw CheckpointError("no room for 7 bytes");
      return writer(ranks, "new")(temporary);
    };
    try {
      save_checkpoint(disk(), ranks, folder, failing);
      ADD_FAILURE();
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "no room for 7 bytes", describe(error));
      const bool peer = ranks.rank() != 1;
      EXPECT_EQ(describe(error).find("rank 1 failed") != std::string::npos, peer);
    }
    EXPECT_EQ(check_checkpoint(disk(), ranks, folder).manifest.files.size(), 3U);
  });
  EXPECT_EQ(content(folder / "rank_0"), "old");
  EXPECT_EQ(names(home.path()), List{"a"});
}

TEST(CheckpointFolder, RemovesWhatAKilledSaveLeft) {
  const TemporaryFolder home;
  home.write(".checkpoint-tmp-0123456789abcdef/model.safetensors", "half");
  home.write(".checkpoint-tmp-of-mine/notes", "kept");
  run_ranks(1, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, home.path() / "a", writer(ranks, "x"));
  });
  EXPECT_EQ(names(home.path()), (List{".checkpoint-tmp-of-mine", "a"}));
}

// Between the two renames of a replacement the old one is aside.
TEST(CheckpointFolder, IsFoundAsideWhenItsReplacementWasKilled) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks(2, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, folder, writer(ranks, "old"));
    ranks.barrier();
    if (ranks.rank() == 0) std::filesystem::rename(folder, home.path() / ".checkpoint-old-a");
    ranks.barrier();
    const auto checked = check_checkpoint(disk(), ranks, folder);
    EXPECT_EQ(content(checked.folder / "rank_1"), "old");
    save_checkpoint(disk(), ranks, folder, writer(ranks, "new"));
    EXPECT_EQ(check_checkpoint(disk(), ranks, folder).folder, folder);
  });
  EXPECT_EQ(names(home.path()), List{"a"});
}

TEST(CheckpointFolder, TakesFilesOfHooksIn) {
  const TemporaryFolder home;
  run_ranks(2, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, home.path() / "a", [&](const Path& temporary) {
      if (ranks.rank() == 1) {
        const auto file = disk().create(temporary / "vocabulary.txt");
        file->write("a b c");
        file->close();
      }
      return writer(ranks, "x")(temporary);
    });
    EXPECT_EQ(check_checkpoint(disk(), ranks, home.path() / "a").manifest.files.size(), 3U);
  });
}

struct Refused {
  const char* what;
  std::function<void(const TemporaryFolder&)> prepare;
  const char* says;
};

TEST(CheckpointFolder, ReplacesNothingButACheckpoint) {
  const Refused cases[] = {
      {"a file", [](const TemporaryFolder& home) { home.write("a", "my notes"); }, "is a file"},
      {"a folder of the user's",
       [](const TemporaryFolder& home) { home.write("a/notes.txt", "my notes"); },
       "is not a complete checkpoint"},
      {"a checkpoint with a file of the user's",
       [](const TemporaryFolder& home) {
         const auto alone = single_communicator();
         save_checkpoint(disk(), *alone, home.path() / "a", writer(*alone, "old"));
         home.write("a/notes.txt", "my notes");
       },
       "holds 'notes.txt'"},
  };
  for (const auto& [what, prepare, says] : cases) {
    const TemporaryFolder home;
    prepare(home);
    run_ranks(2, [&, says = says, what = what](Communicator& ranks) {
      try {
        save_checkpoint(disk(), ranks, home.path() / "a", writer(ranks, "new"));
        ADD_FAILURE() << what;
      } catch (const CheckpointError& error) {
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << what;
      }
    });
    EXPECT_EQ(names(home.path()), List{"a"}) << what;
  }
}

TEST(CheckpointFolder, RefusesASecondSaverBesideIt) {
  const TemporaryFolder home;
  const auto lock = disk().lock(home.path());
  run_ranks(2, [&](Communicator& ranks) {
    EXPECT_THROW(save_checkpoint(disk(), ranks, home.path() / "a", writer(ranks, "x")),
                 CheckpointError);
  });
  EXPECT_TRUE(names(home.path()).empty());
}

TEST(CheckpointFolder, DamageIsNamedOnEveryRank) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks(2, [&](Communicator& ranks) {
    save_checkpoint(disk(), ranks, folder, writer(ranks, "12345"));
    ranks.barrier();
    if (ranks.rank() == 0) home.write("a/rank_1", "12x45");
    ranks.barrier();
    try {
      (void)check_checkpoint(disk(), ranks, folder);
      ADD_FAILURE();
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'rank_1' is damaged", describe(error));
      EXPECT_TRUE(describe(error).ends_with(" [accelerate.error/checkpoint-damaged]"));
    }
  });
}

TEST(CheckpointFolder, NumbersAreReadAsNumbers) {
  const TemporaryFolder home;
  for (const char* name : {"checkpoint_2", "checkpoint_10", "checkpoint_9", "checkpoint_x",
                           "checkpoint_-1", "checkpoint_007", "other"})
    disk().create_directories(home.path() / name);
  std::vector<std::int64_t> numbers;
  for (const auto& checkpoint : numbered_checkpoints(disk(), home.path(), "checkpoint_"))
    numbers.push_back(checkpoint.number);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{2, 9, 10}));
  EXPECT_TRUE(numbered_checkpoints(disk(), home.path() / "none", "checkpoint_").empty());
}

}  // namespace
}  // namespace accelerate
