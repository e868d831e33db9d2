// save_state({.asynchronous = true}): what the training does meanwhile changes nothing in it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "accelerate/accelerate.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/numbered_checkpoints.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_processes;
using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;

constexpr SaveStateOptions kAsynchronous{.asynchronous = true};

// A training whose every step changes weights and moments.
struct SavedTraining {
  explicit SavedTraining(const AcceleratorOptions& options) : accelerator(options) {
    const torch::NoGradGuard no_grad;
    net->weight.fill_(0.5);
    net->bias.fill_(-1);
  }

  void step() {
    auto& [model, optimizer] = prepared;
    accelerator.backward(model(torch::arange(32, torch::kFloat).view({1, 32})).pow(2).sum());
    optimizer.step();
    optimizer.zero_grad();
  }

  Accelerator accelerator;
  torch::nn::Linear net{32, 64};
  torch::optim::Adam adam{net->parameters(), 0.1};
  decltype(std::declval<Accelerator&>().prepare(net, adam)) prepared =
      accelerator.prepare(net, adam);
};

std::map<std::string, std::string> contents(const Path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& name : real_file_system().list(folder))
    all[name] = read_file(real_file_system(), folder / name, 1 << 20);
  return all;
}

class AsynchronousSave : public ::testing::TestWithParam<int> {};

TEST_P(AsynchronousSave, HoldsWhatTheStateWasAtTheCall) {
  const TemporaryFolder home;
  run_ranks_shared(GetParam(), [&](const std::shared_ptr<Communicator>& ranks) {
    SavedTraining training({.communicator = ranks});
    for (int round = 0; round < 3; ++round) {
      training.step();
      training.accelerator.save_state(home.path() / "before");
      training.accelerator.save_state(home.path() / "during", kAsynchronous);
      for (int i = 0; i < 3; ++i) training.step();
      training.accelerator.wait_for_save();
      EXPECT_EQ(contents(home.path() / "during"), contents(home.path() / "before"));
      ranks->barrier();
    }
    training.accelerator.load_state(home.path() / "during");
    training.accelerator.save_state(home.path() / "again", kAsynchronous);
    training.accelerator.end_training();
    EXPECT_EQ(contents(home.path() / "again"), contents(home.path() / "during"));
  });
}

// A hook that makes a folder lets the call return and the completion fail, on rank 0 alone.
RemovableHandle make_a_folder(Accelerator& accelerator) {
  return accelerator.register_save_state_pre_hook(
      [main = accelerator.is_main_process()](const Path& folder) {
        if (main) std::filesystem::create_directory(folder / "notes");
      });
}

void expect_failed_save(const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "was not saved", describe(error));
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "which is not a file", describe(error));
  }
}

TEST_P(AsynchronousSave, TellsItsErrorOnAllRanksAtTheNextCall) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks_shared(GetParam(), [&](const std::shared_ptr<Communicator>& ranks) {
    SavedTraining training({.communicator = ranks});
    auto& accelerator = training.accelerator;
    accelerator.save_state(folder);
    const auto whole = contents(folder);
    training.step();
    const std::vector<std::function<void()>> calls = {
        [&] { accelerator.save_state(folder); },
        [&] { accelerator.save_state(folder, kAsynchronous); },
        [&] { accelerator.load_state(folder); },
        [&] { accelerator.wait_for_save(); },
        [&] { accelerator.end_training(); },
    };
    for (const auto& call : calls) {
      auto hook = make_a_folder(accelerator);
      accelerator.save_state(folder, kAsynchronous);
      hook.remove();
      expect_failed_save(call);
      EXPECT_EQ(contents(folder), whole) << "what was there before is whole";
      accelerator.wait_for_save();
      ranks->barrier();
    }
    accelerator.save_state(folder);
  });
  EXPECT_EQ(real_file_system().list(home.path()), std::vector<std::string>{"a"});
}

INSTANTIATE_TEST_SUITE_P(Ranks, AsynchronousSave, ::testing::Values(1, 2, 3));

TEST(AsynchronousSaveAlone, LogsAnErrorInTheDestructor) {
  const TemporaryFolder home;
  const testing::LogCapture log;
  {
    Accelerator accelerator({.communicator = single_communicator()});
    torch::nn::Linear net(2, 2);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    const auto prepared = accelerator.prepare(net, sgd);
    make_a_folder(accelerator);
    accelerator.save_state(home.path() / "a", kAsynchronous);
  }
  ASSERT_FALSE(log.lines().empty());
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "which is not a file", log.lines().back());
  EXPECT_FALSE(std::filesystem::exists(home.path() / "a"));
}

TEST(AsynchronousSaveAlone, TakesItsNumberAtTheCallAndPrunesWhenItIsThrough) {
  const TemporaryFolder home;
  Accelerator accelerator(
      {.project_dir = home.path(),
       .project_config = {.automatic_checkpoint_naming = true, .total_limit = 2},
       .communicator = single_communicator()});
  torch::nn::Linear net(2, 2);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  const auto prepared = accelerator.prepare(net, sgd);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(accelerator.save_iteration(), i);
    accelerator.save_state({}, kAsynchronous);
  }
  auto hook = make_a_folder(accelerator);
  accelerator.save_state({}, kAsynchronous);
  hook.remove();
  EXPECT_THROW(accelerator.wait_for_save(), CheckpointError);
  const auto numbers = [&] {
    std::vector<std::int64_t> found;
    for (const auto& one :
         numbered_checkpoints(real_file_system(), home.path() / "checkpoints", "checkpoint_"))
      found.push_back(one.number);
    return found;
  };
  EXPECT_EQ(numbers(), (std::vector<std::int64_t>{3, 4})) << "a failed one costs no earlier one";
  EXPECT_EQ(accelerator.load_state().filename(), "checkpoint_4");
  EXPECT_EQ(accelerator.save_iteration(), 5);
  accelerator.save_state({}, kAsynchronous);
  accelerator.wait_for_save();
  EXPECT_EQ(numbers(), (std::vector<std::int64_t>{4, 5}));
}

TEST(AsynchronousSaveAlone, RefusesInTheCallWhatCannotBegin) {
  const TemporaryFolder home;
  home.write("a", "my notes");
  Accelerator accelerator({.communicator = single_communicator()});
  EXPECT_THROW(accelerator.save_state(home.path() / "a", kAsynchronous), CheckpointError);
  accelerator.wait_for_save();
}

// 64 MB, so that the signal comes while they are written.
RANK_MAIN(terminated_while_saving) {
  Accelerator accelerator({.cpu = true});
  torch::nn::Linear net(4096, 4096);
  const auto prepared = accelerator.prepare(net);
  accelerator.save_state(std::getenv("TEST_FOLDER"), kAsynchronous);
  std::raise(SIGTERM);
  accelerator.wait_for_save();
  std::this_thread::sleep_for(std::chrono::seconds(20));
  return 0;
}

TEST(AsynchronousSaveAlone, IsCompletedBeforeSigtermEndsTheProcess) {
  for (const int n : {1, 2}) {
    const TemporaryFolder home;
    const Path folder = home.path() / "a";
    for (const auto& rank :
         run_processes(n, "terminated_while_saving", {.env = {{"TEST_FOLDER", folder.string()}}})) {
      EXPECT_EQ(rank.exit_code, 128 + SIGTERM) << rank.err;
      EXPECT_FALSE(rank.timed_out);
    }
    const auto alone = single_communicator();
    EXPECT_EQ(check_checkpoint(real_file_system(), *alone, folder).manifest.num_processes, n);
  }
}

}  // namespace
}  // namespace accelerate
