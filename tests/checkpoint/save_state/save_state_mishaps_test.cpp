// What users and their folders do to save_state() and load_state(), and what must come of it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::LogCapture;
using testing::message_of;
using testing::names_in;
using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;

AcceleratorOptions numbered_in(const Path& project, std::int64_t total_limit,
                               std::shared_ptr<Communicator> ranks = single_communicator()) {
  return {.project_dir = project,
          .project_config = {.automatic_checkpoint_naming = true, .total_limit = total_limit},
          .communicator = std::move(ranks)};
}

TEST(SaveStateMishaps, TheLimitNeverTakesTheCheckpointThatWasJustSaved) {
  const TemporaryFolder home;
  {
    Accelerator earlier(numbered_in(home.path(), 3));
    earlier.set_save_iteration(5);
    for (int i = 0; i < 3; ++i) earlier.save_state();
  }
  const LogCapture log;
  Accelerator again(numbered_in(home.path(), 3));
  EXPECT_TRUE(std::filesystem::exists(again.save_state()));
  EXPECT_EQ(names_in(home.path() / "checkpoints"),
            (Names{"checkpoint_0", "checkpoint_6", "checkpoint_7"}));
  ASSERT_FALSE(log.lines().empty());
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "checkpoint_7 is there: load_state() takes it",
                      log.lines()[0]);
}

TEST(SaveStateMishaps, AfterADamagedOneWasLeftOutTheNextSaveHasANumberOfItsOwn) {
  const TemporaryFolder home;
  Accelerator accelerator(numbered_in(home.path(), 5));
  for (int i = 0; i < 3; ++i) accelerator.save_state();
  home.write("checkpoints/checkpoint_2/accelerator.json", "{}");
  const LogCapture log;
  EXPECT_EQ(accelerator.load_state({}, {.skip_damaged = true}).filename(), "checkpoint_1");
  EXPECT_EQ(accelerator.save_state().filename(), "checkpoint_3");
  EXPECT_EQ(accelerator.load_state().filename(), "checkpoint_3");
}

TEST(SaveStateMishaps, TheLimitLeavesAloneWhatIsNoCheckpointOfOurs) {
  const TemporaryFolder home;
  home.write("checkpoints/checkpoint_0/thesis.txt", "my thesis");
  home.write("checkpoints/checkpoint_9", "a file");
  const LogCapture log;
  Accelerator accelerator(numbered_in(home.path(), 1));
  accelerator.set_save_iteration(1);
  accelerator.save_state();
  accelerator.save_state();
  EXPECT_EQ(names_in(home.path() / "checkpoints"),
            (Names{"checkpoint_0", "checkpoint_2", "checkpoint_9"}));
  EXPECT_EQ(accelerator.load_state().filename(), "checkpoint_2") << "a file is no checkpoint";
}

TEST(SaveStateMishaps, HooksMayRemoveThemselvesAndAddOthers) {
  const TemporaryFolder home;
  Accelerator accelerator({.communicator = single_communicator()});
  std::vector<std::string> called;
  std::optional<RemovableHandle> handle;
  const std::string once = "a text too long to lie inside of the function object itself";
  handle = accelerator.register_save_state_pre_hook([&, once](const Path&) {
    handle->remove();
    called.push_back(once);
    for (int i = 0; i < 10; ++i)
      accelerator.register_save_state_pre_hook([&](const Path&) { called.push_back("added"); });
  });
  accelerator.save_state(home.path() / "a");
  EXPECT_EQ(called, Names{once}) << "those that were added are for the next save";
  accelerator.save_state(home.path() / "a");
  EXPECT_EQ(called.size(), 11U);
}

TEST(SaveStateMishaps, AHookMayNotTakeANameOfTheCheckpoint) {
  for (const char* name : {"model.safetensors", "model_1.safetensors", "random_states_3.json",
                           "manifest.json", "shard-00001-model-00001-of-00001.safetensors"}) {
    const TemporaryFolder home;
    Accelerator accelerator({.communicator = single_communicator()});
    auto hook = accelerator.register_save_state_pre_hook(
        [&](const Path& folder) { write_file_atomically(real_file_system(), folder / name, "x"); });
    for (const bool sharded : {false, true}) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string("a hook wrote '") + name,
                          message_of<CheckpointError>([&] {
                            accelerator.save_state(home.path() / "a", {.sharded = sharded});
                          }));
    }
    EXPECT_TRUE(names_in(home.path()).empty());
  }
}

// What is thrown on one rank reaches all as one type, also what is no exception of ours.
TEST(SaveStateMishaps, WhateverAHookThrowsEndsTheSaveOnAllRanks) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.communicator = ranks});
    for (const int kind : {0, 1}) {
      auto hook = accelerator.register_save_state_pre_hook([&](const Path&) {
        if (ranks->rank() == 0) return;
        if (kind == 0) throw std::runtime_error("not ready");
        throw 42;  // NOLINT
      });
      EXPECT_THROW(accelerator.save_state(home.path() / "a"), CheckpointError);
      hook.remove();
    }
    accelerator.save_state(home.path() / "a");
  });
}

TEST(SaveStateMishaps, OptionsThatDifferBetweenRanksAreRefusedOnAllOfThem) {
  const TemporaryFolder home;
  const std::pair<SaveStateOptions, const char*> cases[] = {
      {{.asynchronous = true}, "{.asynchronous = true, .sharded = false} on rank 2"},
      {{.sharded = true}, "{.asynchronous = false, .sharded = true} on rank 2"}};
  run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.communicator = ranks});
    for (const auto& [odd, says] : cases) {
      const auto said = message_of<UsageError>([&, options = odd] {
        accelerator.save_state(home.path() / "a",
                               ranks->rank() == 2 ? options : SaveStateOptions());
      });
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, said);
      EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                          "{.asynchronous = false, .sharded = false} on rank 0", said);
    }
    accelerator.save_state(home.path() / "a");
  });
}

TEST(SaveStateMishaps, ALinkIsFollowedAndKept) {
  const TemporaryFolder home;
  const Path disk = home.path() / "scratch" / "state", link = home.path() / "link";
  std::filesystem::create_directories(disk);
  std::filesystem::create_directory_symlink(disk, link);
  Accelerator accelerator({.communicator = single_communicator()});
  for (int i = 0; i < 2; ++i) accelerator.save_state(link);
  accelerator.load_state(link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::exists(disk / "manifest.json"));
  EXPECT_EQ(names_in(home.path()), (Names{"link", "scratch"}));
}

// Looking at the folder fails on the rank that looks: all must hear of it.
TEST(SaveStateMishaps, AFolderThatCannotBeLookedAtIsAnErrorOnAllRanks) {
  const TemporaryFolder home;
  std::filesystem::create_symlink("checkpoints", home.path() / "checkpoints");
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator(numbered_in(home.path(), 2, ranks));
    EXPECT_THROW(accelerator.save_state(), CheckpointError);
    EXPECT_THROW(accelerator.load_state(), CheckpointError);
    EXPECT_THROW(accelerator.load_state(home.path() / "checkpoints"), CheckpointError);
  });
}

TEST(SaveStateMishaps, ACandidateThatCannotBeLookedAtIsLeftOutOnAllRanks) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator(numbered_in(home.path(), 5, ranks));
    accelerator.save_state();
    accelerator.save_state();
    ranks->barrier();
    if (ranks->rank() == 0) {
      const Path manifest = home.path() / "checkpoints" / "checkpoint_1" / "manifest.json";
      std::filesystem::remove(manifest);
      std::filesystem::create_symlink("manifest.json", manifest);
    }
    ranks->barrier();
    const auto loaded = accelerator.load_state({}, {.skip_damaged = true});
    EXPECT_EQ(loaded.filename(), "checkpoint_0");
  });
}

TEST(SaveStateMishaps, ABrokenRestOfAnEarlierOneDoesNotMatter) {
  const TemporaryFolder home;
  Accelerator accelerator({.communicator = single_communicator()});
  accelerator.save_state(home.path() / "a");
  home.write(".checkpoint-old-a/manifest.json", "garbage");
  EXPECT_EQ(accelerator.load_state(home.path() / "a"), home.path() / "a");
}

}  // namespace
}  // namespace accelerate
