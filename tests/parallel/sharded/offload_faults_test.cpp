// Disks that are full, refuse or fail under a sharded model: every rank gets a sentence, none waits
// for ever or goes on with other numbers, and a checkpoint from before is as good as ever.
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/failing_calls.h"
#include "tests/parallel/sharded/offloaded_program.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::all_on_disk;
using testing::kind_and_message_of;
using testing::message_of;
using testing::OffloadedRank;
using testing::OffloadedSetting;
using testing::options_of;
using testing::ShardedNet;
using testing::ShardedNetOptions;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;

constexpr int kNotPermitted = 77;

bool says(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    if (message.find(part) == std::string::npos) return false;
  }
  return true;
}

void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  EXPECT_TRUE(says(message, parts)) << message;
}

// Returns the file of a rank below `root` whose name begins so.
fs::path file_of(const fs::path& root, int rank, const std::string& name) {
  const std::string folder = "-rank" + std::to_string(rank);
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const auto path = entry.path();
    if (path.parent_path().string().ends_with(folder) && path.filename().string().starts_with(name))
      return path;
  }
  throw std::runtime_error("rank " + std::to_string(rank) + " has no file " + name);
}

int folders_below(const fs::path& root) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(root)) count += entry.is_directory() ? 1 : 0;
  return count;
}

// --- a file that is cut short --------------------------------------------------------------------

enum class Moment { forward, backward, step };

struct Cut {
  std::string name, file;
  Moment before;
  MixedPrecision precision = MixedPrecision::no;
};
void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.name;
}

class OffloadFaultsOfFiles : public ::testing::TestWithParam<Cut> {
 protected:
  // A step in which `rank` loses a file.
  void lose_in_step(OffloadedRank& rank, const fs::path& root) {
    const int index = rank.accelerator.process_index();
    const bool loses = index == rank.accelerator.num_processes() - 1;
    const auto at = [&](Moment moment) {
      rank.accelerator.wait_for_everyone();
      if (loses && moment == GetParam().before)
        fs::resize_file(file_of(root, index, GetParam().file), 0);
      rank.accelerator.wait_for_everyone();
    };
    at(Moment::forward);
    const auto loss = rank.loss(2);
    at(Moment::backward);
    rank.accelerator.backward(loss);
    at(Moment::step);
    rank.optimizer.step();
    rank.optimizer.zero_grad();
  }
};

TEST_P(OffloadFaultsOfFiles, AreErrorsOfAllRanksAndTheCheckpointIsGood) {
  const testing::TemporaryFolder root, home;
  const OffloadedSetting setting{.precision = GetParam().precision};
  const auto finish = [](OffloadedRank& rank) {
    for (int step = 2; step < 4; ++step) rank.step(step);
    return rank.weights();
  };
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    OffloadedRank rank(options_of(setting, comm, all_on_disk(root.path())));
    for (int step = 0; step < 2; ++step) rank.step(step);
    (void)rank.accelerator.save_state(home.path() / "state");
    const std::string message = kind_and_message_of([&] {
      lose_in_step(rank, root.path());
      rank.step(3);
    });
    expect_says(message, {GetParam().file});
    // Lost pages are an error of all that one process has mapped, and here it has both ranks.
    const bool is_typed = message.starts_with("FileError: ") ||
                          (comm->rank() == 0 && message.starts_with("CommError: "));
    EXPECT_TRUE(is_typed) << message;
  });
  EXPECT_EQ(folders_below(root.path()), 0);
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    OffloadedRank whole(options_of(setting, comm, std::nullopt));
    for (int step = 0; step < 2; ++step) whole.step(step);
    OffloadedRank rank(options_of(setting, comm, all_on_disk(root.path())));
    rank.accelerator.load_state(home.path() / "state");
    const auto expected = finish(whole), found = finish(rank);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, OffloadFaultsOfFiles,
    ::testing::Values(Cut{"ParametersBeforeForward", "parameters", Moment::forward},
                      Cut{"ParametersBeforeBackward", "parameters", Moment::backward},
                      Cut{"ParametersBeforeTheStep", "parameters", Moment::step},
                      Cut{"CopiesBeforeTheStep", "parameters", Moment::step, MixedPrecision::bf16},
                      Cut{"GradientsBeforeForward", "gradients", Moment::forward},
                      Cut{"GradientsBeforeTheStep", "gradients", Moment::step},
                      Cut{"MastersBeforeTheStep", "masters", Moment::step, MixedPrecision::bf16},
                      Cut{"StateBeforeTheStep", "state_1", Moment::step}),
    [](const auto& info) { return info.param.name; });

// What reads a file as memory gets zeros, which must not get any further.
TEST(OffloadFaults, PagesThatAreLostAreAnErrorOfWhatReadsThem) {
  const testing::TemporaryFolder root, home;
  using Use = std::function<void(OffloadedRank&)>;
  const std::vector<std::pair<std::string, Use>> uses = {
      {"gradients",
       [](OffloadedRank& rank) {
         (void)rank.accelerator.clip_grad_norm_(rank.model.parameters(), 0.1);
         rank.optimizer.step();
       }},
      {"parameters", [](OffloadedRank& rank) { (void)rank.weights(); }},
      {"parameters",
       [&](OffloadedRank& rank) { rank.accelerator.save_model(rank.model, home.path() / "m"); }},
      {"state_0",
       [&](OffloadedRank& rank) { (void)rank.accelerator.save_state(home.path() / "s"); }}};
  for (const auto& [file, use] : uses) {
    testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
      OffloadedRank rank(options_of({}, comm, all_on_disk(root.path())));
      rank.step(0);
      rank.backward(1);
      rank.accelerator.wait_for_everyone();
      if (comm->rank() == 1) fs::resize_file(file_of(root.path(), 1, file), 0);
      rank.accelerator.wait_for_everyone();
      const std::string message = kind_and_message_of([&] { use(rank); });
      expect_says(message, {file});
    });
    EXPECT_EQ(folders_below(root.path()), 0);
  }
}

// A program of one rank may catch the error. It cannot go on with values half of which are new.
TEST(OffloadFaults, AStepThatFailedHalfwayIsNotGoneOnFrom) {
  const testing::TemporaryFolder root;
  OffloadedRank rank(options_of({}, single_communicator(), all_on_disk(root.path())));
  rank.step(0);
  rank.backward(1);
  const fs::path state = file_of(root.path(), 0, "state_1");
  const auto size = fs::file_size(state);
  fs::resize_file(state, 0);
  EXPECT_THROW(rank.optimizer.step(), FileError);
  fs::resize_file(state, size);
  rank.optimizer.zero_grad();
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { (void)rank.loss(1); }, [&] { (void)rank.weights(); },
           [&] { rank.optimizer.step(); },
           [&] { (void)rank.accelerator.save_state(root.path() / "saved"); }})
    expect_says(message_of<UsageError>(use), {"failed halfway", "state_1", "load_state()"});
}

// --- a disk that refuses -------------------------------------------------------------------------

TEST(OffloadFaults, OneRankThatMayNotWriteIsToldToAll) {
  if (::geteuid() != 0) GTEST_SKIP() << "no right to act as another user";
  const testing::TemporaryFolder root;
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 1) ::setfsuid(65534);  // Of this thread alone.
    const std::string message = message_of<UsageError>(
        [&] { OffloadedRank rank(options_of({}, comm, all_on_disk(root.path()))); });
    ::setfsuid(0);
    expect_says(message, {"rank 1: ", root.path().string(), "Permission denied"});
  });
  EXPECT_EQ(folders_below(root.path()), 0);
}

TEST(OffloadFaults, AFileInPlaceOfTheFolderIsToldToAll) {
  const testing::TemporaryFolder root;
  const auto file = root.write("file", "text");
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    expect_says(message_of<UsageError>(
                    [&] { OffloadedRank rank(options_of({}, comm, all_on_disk(file))); }),
                {"rank 0: ", file.string()});
  });
}

// Rank 1 has a small disk, of `bytes`. Returns what prepare() says of it.
std::string refusal_on_a_small_disk(Accelerator& accelerator, const fs::path& root,
                                    const char* bytes) {
  if (accelerator.process_index() == 1 && ::mount("tmpfs", root.c_str(), "tmpfs", 0, bytes) != 0) {
    std::exit(kNotPermitted);
  }
  FullyShardedDataParallelPlugin plugin;
  plugin.disk_offload = all_on_disk(root);
  Accelerator own({.fsdp_plugin = plugin});
  torch::nn::Linear net(256, 255);
  AdamW adamw(net->parameters(), AdamWOptions(0.01));
  return message_of<UsageError>([&] { (void)own.prepare(net, adamw); });
}

// A slice takes 128 KiB, and so does its gradient.
RANK_MAIN(prepares_on_a_small_disk) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return kNotPermitted;
  }
  const fs::path root = std::getenv("TEST_ROOT");
  Accelerator accelerator;
  const auto of_model = refusal_on_a_small_disk(accelerator, root, "size=100k");
  const auto of_optimizer = refusal_on_a_small_disk(accelerator, root, "size=400k");
  std::printf("%s\n%s\n", of_model.c_str(), of_optimizer.c_str());
  const bool good =
      says(of_model,
           {"rank 1: ", "parameters.Float", "it takes 128.", " KB on this rank", "free"}) &&
      says(of_optimizer,
           {"rank 1: ", "state_1.Float", "it takes 128.", " KB on this rank", "free"});
  return good ? 0 : 1;
}

void expect_all_end_well(const std::vector<testing::ProcessResult>& results) {
  for (const auto& result : results) {
    if (result.exit_code == kNotPermitted) GTEST_SKIP() << "no right to make a failing disk";
    EXPECT_EQ(result.exit_code, 0) << "rank " << result.rank << ": " << result.out << result.err;
  }
}

TEST(OffloadFaults, ADiskThatIsTooSmallIsToldBeforeTheFirstStep) {
  const testing::TemporaryFolder root;
  expect_all_end_well(testing::run_processes(2, "prepares_on_a_small_disk",
                                             {.env = {{"TEST_ROOT", root.path().string()}}}));
}

// --- a disk that fails ---------------------------------------------------------------------------

// In the third step all reads, or writes, of rank 1 fail.
RANK_MAIN(trains_on_a_failing_disk) {
  const bool reads = std::string(std::getenv("TEST_CALL")) == "read";
  const bool in_step = std::getenv("TEST_IN_STEP") != nullptr;
  auto plugin = testing::wrapping_blocks();
  plugin.disk_offload = all_on_disk(std::getenv("TEST_ROOT"));
  OffloadedRank rank({.fsdp_plugin = plugin});
  for (int step = 0; step < 2; ++step) rank.step(step);
  const std::string message = kind_and_message_of([&] {
    if (in_step) rank.backward(2);
    if (rank.accelerator.process_index() == 1 && !testing::fail_calls(reads)) std::_Exit(77);
    if (!in_step) rank.backward(2);
    rank.optimizer.step();
    rank.step(3);
  });
  std::printf("%s\n", message.c_str());
  const bool is_own = rank.accelerator.process_index() == 1;
  return says(message, {is_own ? "FileError: " : "CommError: ", "Input/output error"}) ? 0 : 1;
}

TEST(OffloadFaults, ADiskThatFailsEndsTheTrainingOfAllRanks) {
  for (const auto* call : {"read", "write"}) {
    const testing::TemporaryFolder root;
    std::map<std::string, std::string> env = {{"TEST_ROOT", root.path().string()},
                                              {"TEST_CALL", call}};
    if (std::string(call) == "write") env["TEST_IN_STEP"] = "1";
    expect_all_end_well(testing::run_processes(2, "trains_on_a_failing_disk", {.env = env}));
  }
}

// --- a process that is killed --------------------------------------------------------------------

RANK_MAIN(is_killed_while_it_trains_from_disk) {
  auto plugin = testing::wrapping_blocks();
  plugin.disk_offload = all_on_disk(std::getenv("TEST_ROOT"));
  OffloadedRank rank({.fsdp_plugin = plugin});
  rank.step(0);
  ::raise(SIGKILL);
  return 0;
}

TEST(OffloadFaults, WhatAKilledProcessLeavesTheNextModelRemoves) {
  const testing::TemporaryFolder root;
  const auto results = testing::run_processes(1, "is_killed_while_it_trains_from_disk",
                                              {.env = {{"TEST_ROOT", root.path().string()}}});
  EXPECT_EQ(results.front().exit_code, 128 + SIGKILL) << results.front().err;
  EXPECT_EQ(folders_below(root.path()), 1);
  OffloadedRank rank(options_of({}, single_communicator(), all_on_disk(root.path())));
  EXPECT_EQ(folders_below(root.path()), 1);
  EXPECT_NO_THROW((void)file_of(root.path(), 0, "state_1"));
  rank.step(0);
}

}  // namespace
}  // namespace accelerate
