// should_stop() and save_on_signal() of a loop that is written by hand.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

struct Left {
  std::int64_t steps = 0;  // Of this run.
  int code = 0;
  at::Tensor weights = {};
};

// Trains `epochs` passes over 6 batches a rank. `behind_a_step` gets the number of the step.
Left train(const std::filesystem::path& folder, bool resumes,
           const std::function<void(Accelerator&, std::int64_t)>& behind_a_step) {
  torch::manual_seed(3);
  Accelerator accelerator({.cpu = true});
  torch::nn::Sequential net(torch::nn::Linear(2, 4), torch::nn::Dropout(0.5),
                            torch::nn::Linear(4, 1));
  torch::optim::Adam adam(net->parameters(), 0.05);
  const at::Tensor rows = torch::arange(24, at::kFloat).view({12, 2}) / 24;
  auto [model, optimizer, loader] =
      accelerator.prepare(net, adam, make_data_loader(rows, {.batch_size = 1, .shuffle = true}));
  accelerator.save_on_signal(folder);
  if (resumes) accelerator.load_state(folder);
  Left left;
  while (left.code == 0 && loader.epoch() < 2) {
    for (auto& batch : loader) {
      accelerator.backward(model(batch).pow(2).mean());
      optimizer.step();
      optimizer.zero_grad();
      behind_a_step(accelerator, ++left.steps);
      if (accelerator.should_stop()) break;
    }
    left.code = accelerator.stop_code();
  }
  std::vector<at::Tensor> flat;
  for (const auto& parameter : net->parameters()) flat.push_back(parameter.detach().flatten());
  left.weights = torch::cat(flat);
  return left;
}

std::filesystem::path folder_of_test() {
  return std::getenv("STOPPING_FOLDER");
}

// One rank is told, by one signal in each run; the last run ends by itself.
RANK_MAIN(stop_a_loop_of_two_ranks) {
  const Left whole = train(folder_of_test() / "whole", false, [](auto&, auto) {});
  if (whole.code != 0 || whole.steps == 0) return 1;
  std::int64_t steps = 0;
  for (const int signal : {SIGTERM, SIGUSR1, 0}) {
    const Left left = train(folder_of_test() / "cut", steps > 0, [&](auto& ranks, auto step) {
      if (step == 4 && signal != 0 && ranks.process_index() == 1) std::raise(signal);
    });
    steps += left.steps;
    if (left.code != (signal == 0 ? 0 : 128 + signal)) return 2;
    if (signal != 0 && left.steps != 4) return 3;
    if (signal == 0 && !torch::equal(left.weights, whole.weights)) return 4;
  }
  return steps == whole.steps ? 0 : 5;
}

TEST(Stopping, RanksAgreeSaveAndGoOnAsIfNothingHadStoppedThem) {
  const TemporaryFolder folder;
  for (const auto& rank : testing::run_processes(2, "stop_a_loop_of_two_ranks",
                                                 {.env = {{"STOPPING_FOLDER", folder.path()}}}))
    EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
}

RANK_MAIN(save_on_one_rank_alone) {
  Accelerator accelerator({.cpu = true});
  if (accelerator.is_main_process()) accelerator.save_on_signal(folder_of_test());
  const std::string text = message_of<UsageError>([&] { (void)accelerator.should_stop(); });
  return text.find("1 of 2 ranks have called save_on_signal()") == std::string::npos ? 1 : 0;
}

TEST(Stopping, RefusesASaveThatOnlySomeRanksAskFor) {
  const TemporaryFolder folder;
  for (const auto& rank : testing::run_processes(2, "save_on_one_rank_alone",
                                                 {.env = {{"STOPPING_FOLDER", folder.path()}}}))
    EXPECT_EQ(rank.exit_code, 0) << rank.out << rank.err;
}

TEST(Stopping, StaysTrueAndSavesOnce) {
  const TemporaryFolder folder;
  const auto cut = folder.path() / "cut";
  const Left left = train(cut, false, [&](Accelerator& accelerator, std::int64_t step) {
    if (step != 2) return;
    std::raise(SIGINT);
    EXPECT_TRUE(accelerator.should_stop());
    std::filesystem::remove_all(cut);
    EXPECT_TRUE(accelerator.should_stop());
    EXPECT_FALSE(std::filesystem::exists(cut));
  });
  EXPECT_EQ(left.code, 130);
}

TEST(Stopping, OfALoopThatSavesItselfWritesNothing) {
  Accelerator accelerator({.cpu = true});
  EXPECT_FALSE(accelerator.should_stop());
  EXPECT_EQ(accelerator.stop_code(), 0);
  std::raise(SIGUSR1);
  EXPECT_TRUE(accelerator.should_stop());
  EXPECT_EQ(accelerator.stop_code(), 138);
}

// A disk that was full a while ago may not keep the last save from being made.
TEST(Stopping, SavesThoughAnEarlierSaveInTheBackgroundHasFailed) {
  const TemporaryFolder folder;
  const Left left = train(folder.path() / "cut", false, [&](Accelerator& ranks, std::int64_t step) {
    if (step != 2) return;
    auto hook = ranks.register_save_state_pre_hook([](const std::filesystem::path& where) {
      std::filesystem::create_directory(where / "sub");
    });
    ranks.save_state(folder.path() / "failing", {.asynchronous = true});
    hook.remove();
    std::raise(SIGTERM);
  });
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "failing"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "cut" / "manifest.json"));
  EXPECT_EQ(left.code, 143);
}

TEST(Stopping, RefusesWhatContradictsItself) {
  Accelerator accelerator({.cpu = true});
  const auto said = [&](const std::filesystem::path& folder, const SaveStateOptions& options) {
    return message_of<UsageError>([&] { accelerator.save_on_signal(folder, options); });
  };
  EXPECT_EQ(said("", {}),
            "save_on_signal() needs a folder, or project_config.automatic_checkpoint_naming");
  EXPECT_NE(said("here", {.asynchronous = true}).find("has to wait for its save"),
            std::string::npos);
  const TemporaryFolder folder;
  Accelerator automatic({.cpu = true,
                         .project_dir = folder.path(),
                         .project_config = {.automatic_checkpoint_naming = true}});
  EXPECT_NE(message_of<UsageError>([&] {
              automatic.save_on_signal("here");
            }).find("save_on_signal() was given 'here'"),
            std::string::npos);
}

TEST(Stopping, InUnevenInputsIsRefused) {
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.communicator = ranks});
    torch::nn::Linear net(1, 1);
    auto model = accelerator.prepare(net);
    {
      auto scope = accelerator.join_uneven_inputs({.even_batches = false}, model);
      EXPECT_NE(message_of<UsageError>([&] {
                  (void)accelerator.should_stop();
                }).find("inside join_uneven_inputs"),
                std::string::npos);
    }
    EXPECT_FALSE(accelerator.should_stop());
  });
}

}  // namespace
}  // namespace accelerate
