// Machines without a file system in common: each gets checkpoints of its own. Here two of two ranks
// each, whose disks are two folders.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "tests/checkpoint/save_state/saved_count.h"
#include "tests/support/files.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Count;
using testing::kFolder;

using testing::names_in;
using testing::TemporaryFolder;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;

constexpr const char* kTask = "ACCELERATE_TEST_TASK";

Path disk_of(const Path& home, int node) {
  return home / ("disk_" + std::to_string(node));
}

std::int64_t saved_then_loaded(Accelerator& accelerator, Count& count, const std::string& task,
                               const Path& folder) {
  if (task.starts_with("save")) {
    count.value = std::atoi(task.c_str() + 4);
    accelerator.save_state(folder);
  }
  if (task == "number") {
    for (count.value = 0; count.value < 4; ++count.value) accelerator.save_state();
  }
  if (task == "fail on rank 3") {
    accelerator.register_save_state_pre_hook([&](const Path&) {
      if (accelerator.process_index() == 3) throw CheckpointError("no room");
    });
    count.value = 99;
    accelerator.save_state(folder);
  }
  count.value = -1;
  accelerator.load_state(folder);
  return count.value;
}

// A rank, the first two of which are on one machine, the others on another. Prints what was loaded
// in the end, or why not.
RANK_MAIN(be_one_of_two_machines) {
  const int rank = std::atoi(std::getenv("RANK"));
  setenv("LOCAL_RANK", std::to_string(rank % 2).c_str(), 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  const Path disk = disk_of(std::getenv(kFolder), rank / 2);
  const std::string task = std::getenv(kTask);
  const bool numbered = task.starts_with("number");
  Accelerator accelerator(
      {.project_dir = disk,
       .project_config = {.automatic_checkpoint_naming = numbered,
                          .total_limit = numbered ? std::optional<std::int64_t>(2) : std::nullopt,
                          .save_on_each_node = true}});
  torch::nn::Linear net(2, 2);
  auto model = accelerator.prepare(net);
  Count count;
  accelerator.register_for_checkpointing(count);
  try {
    std::cout << saved_then_loaded(accelerator, count, task, numbered ? Path() : disk / "state")
              << std::endl;
  } catch (const CheckpointError& error) {
    std::cout << describe(error) << std::endl;
  }
  return 0;
}

class SaveOnEachNode : public ::testing::Test {
 protected:
  [[nodiscard]] Path disk(int node) const { return disk_of(home_.path(), node); }

  // What each of the four ranks printed.
  Names on_two_nodes(const std::string& task) {
    Names printed;
    for (const auto& rank : testing::run_processes(
             4, "be_one_of_two_machines", {.env = {{kFolder, home_.path()}, {kTask, task}}})) {
      EXPECT_EQ(rank.exit_code, 0) << task << ", rank " << rank.rank << ": " << rank.err;
      printed.push_back(rank.out);
    }
    return printed;
  }

  TemporaryFolder home_;
};

Names all(const std::string& text) {
  return Names(4, text);
}

TEST_F(SaveOnEachNode, EveryDiskHasAllButTheRandomStatesOfOtherMachines) {
  EXPECT_EQ(on_two_nodes("save 5"), all("5\n"));
  for (const int node : {0, 1}) {
    const auto first = "random_states_" + std::to_string(2 * node);
    const auto second = "random_states_" + std::to_string(2 * node + 1);
    EXPECT_EQ(names_in(disk(node) / "state"),
              (Names{"accelerator.json", "custom_checkpoint.json", "manifest.json",
                     "model.safetensors", first + ".json", first + ".safetensors", second + ".json",
                     second + ".safetensors"}));
    EXPECT_EQ(names_in(disk(node)), Names{"state"});
  }
}

TEST_F(SaveOnEachNode, TheNewestIsTheNewestThatAllDisksHave) {
  EXPECT_EQ(on_two_nodes("number"), all("3\n"));
  EXPECT_EQ(names_in(disk(1) / "checkpoints"), (Names{"checkpoint_2", "checkpoint_3"}));
  // As if the power of one machine had gone before its last save had its name.
  std::filesystem::remove_all(disk(1) / "checkpoints" / "checkpoint_3");
  EXPECT_EQ(on_two_nodes("number: load"), all("2\n"));
}

// Killed while one machine had replaced its checkpoint and the other had not: the one that is aside
// is of the save that both have.
TEST_F(SaveOnEachNode, AReplacementThatOnlyOneDiskHasIsUndone) {
  on_two_nodes("save 1");
  for (const int node : {0, 1})
    std::filesystem::copy(disk(node) / "state", home_.path() / std::to_string(node));
  on_two_nodes("save 2");
  std::filesystem::remove_all(disk(1) / "state");
  std::filesystem::copy(home_.path() / "1", disk(1) / "state");
  for (const auto& said : on_two_nodes("load"))
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "hold different saves", said);
  std::filesystem::copy(home_.path() / "0", disk(0) / ".checkpoint-old-state");
  EXPECT_EQ(on_two_nodes("load"), all("1\n"));
}

TEST_F(SaveOnEachNode, AFailureOnOneDiskIsEveryonesAndBothKeepWhatTheyHad) {
  on_two_nodes("save 1");
  for (const auto& said : on_two_nodes("fail on rank 3"))
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "no room", said);
  EXPECT_EQ(on_two_nodes("load"), all("1\n"));
  EXPECT_EQ(names_in(disk(0)), Names{"state"});
  EXPECT_EQ(names_in(disk(1)), Names{"state"});
}

TEST_F(SaveOnEachNode, ShardsNeedOneFileSystem) {
  Accelerator accelerator(
      {.project_config = {.save_on_each_node = true}, .communicator = single_communicator()});
  EXPECT_THROW(accelerator.save_state(disk(0) / "state", {.sharded = true}), UsageError);
}

// One machine's disk, taken elsewhere: a rank whose random state it lacks draws new numbers.
TEST_F(SaveOnEachNode, OneDiskIsEnoughForAnotherNumberOfRanks) {
  on_two_nodes("save 7");
  Accelerator accelerator({.communicator = single_communicator()});
  torch::nn::Linear net(2, 2);
  auto model = accelerator.prepare(net);
  Count count;
  accelerator.register_for_checkpointing(count);
  accelerator.load_state(disk(1) / "state");
  EXPECT_EQ(count.value, 7);
}

}  // namespace
}  // namespace accelerate
