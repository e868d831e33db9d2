// Real saves on a real disk, killed at instants that nobody chose: what load_state() finds next is
// never older than what a save_state() had returned, and whole.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>
#include <thread>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/numbered_checkpoints.h"
#include "tests/checkpoint/save_state/saved_count.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Count;
using testing::kFolder;

using testing::TemporaryFolder;
using Path = std::filesystem::path;

constexpr int kKills = 110;  // Of numbered saves, and as many of replacing ones.
constexpr auto kLongest = std::chrono::seconds(60);  // A slow machine gets fewer.
enum : int { kSaveLost = 3, kPipeLost = 4, kThrew = 5 };

bool tell(int pipe, std::int64_t number) {
  return write(pipe, &number, sizeof number) == sizeof number;
}

// A save may have been complete when it was killed before it could tell.
bool is_anything_saved(const Path& project) {
  return !numbered_checkpoints(real_file_system(), project / "checkpoints", "checkpoint_")
              .empty() ||
         std::filesystem::exists(project / "state");
}

// Loads the newest checkpoint, which must be of save `promised` or later and of one save only; then
// saves, and tells each number through `pipe` once save_state() has returned. Never ends.
int save_for_ever(const Path& project, bool numbered, std::int64_t promised, int pipe) {
  Accelerator accelerator(
      {.project_dir = project,
       .project_config = {.automatic_checkpoint_naming = numbered,
                          .total_limit = numbered ? std::optional(2) : std::nullopt},
       .communicator = single_communicator()});
  torch::nn::Linear net(128, 128);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto prepared = accelerator.prepare(net, sgd);
  Count count;
  accelerator.register_for_checkpointing(count);
  const Path folder = numbered ? Path() : project / "state";
  const torch::NoGradGuard no_grad;
  if (promised > 0 || is_anything_saved(project)) {
    accelerator.load_state(folder);
    const bool whole = (net->weight == static_cast<double>(count.value)).all().item<bool>();
    if (count.value < promised || !whole) return kSaveLost;
  }
  while (tell(pipe, count.value)) {
    ++count.value;
    net->weight.fill_(static_cast<double>(count.value));
    accelerator.save_state(folder);
  }
  return kPipeLost;
}

// Savers, one after the other, each killed at an instant between its beginning and about its second
// save.
class Killer {
 public:
  Killer(Path project, bool numbered) : project_(std::move(project)), numbered_(numbered) {}

  // Returns how the saver ended.
  int live_and_die() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    const pid_t saver = fork();
    if (saver == 0) _exit(life(ends[1]));
    close(ends[1]);
    pollfd begun{.fd = ends[0], .events = POLLIN, .revents = 0};
    poll(&begun, 1, 20'000);
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::uniform_real_distribution(0.0, 2.0)(random_) * a_save_);
    kill(saver, SIGKILL);
    const std::chrono::duration<double> lived = std::chrono::steady_clock::now() - begin;
    int told = 0;
    while (read(ends[0], &promised_, sizeof promised_) == sizeof promised_) ++told;
    close(ends[0]);
    // The first number is told at the beginning; how long a save takes depends on the machine.
    a_save_ = told > 1 ? lived / (told - 0.5) : a_save_ * 1.2;
    saves_ += std::clamp(told - 1, 0, kMostOfALife);
    int status = 0;
    waitpid(saver, &status, 0);
    return status;
  }

  static constexpr int kMostOfALife = 5;
  // Saves that returned; of a life that the system let go on for long, the first few count.
  [[nodiscard]] int saves() const { return saves_; }

 private:
  int life(int pipe) {
    try {
      return save_for_ever(project_, numbered_, promised_, pipe);
    } catch (const std::exception& error) {
      std::cerr << describe(error) << std::endl;
      return kThrew;
    }
  }

  Path project_;
  bool numbered_;
  std::mt19937 random_{20'261};
  std::int64_t promised_ = 0;
  int saves_ = 0;
  std::chrono::duration<double> a_save_ = std::chrono::milliseconds(20);
};

// A process without threads, so that it may fork: each saver starts in a millisecond.
int die_often(bool numbered) {
  Killer killer(std::getenv(kFolder), numbered);
  const auto end = std::chrono::steady_clock::now() + kLongest;
  int lives = 0;
  while (lives < kKills && std::chrono::steady_clock::now() < end) {
    const int status = killer.live_and_die();
    ++lives;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) continue;
    std::cerr << "life " << lives << " ended with status " << status << "\n";
    return 1;
  }
  std::cout << killer.saves() << " " << lives << std::endl;
  return 0;
}

RANK_MAIN(die_often_while_numbering) {
  return die_often(true);
}

RANK_MAIN(die_often_while_replacing) {
  return die_often(false);
}

void expect_survival(const char* program, const Path& folder) {
  const auto results = testing::run_processes(
      1, program, {.time_limit = std::chrono::seconds(250), .env = {{kFolder, folder}}});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  // Some saves came through and some did not, or nothing was tested.
  int saves = 0, lives = 0;
  std::istringstream(results[0].out) >> saves >> lives;
  EXPECT_GE(lives, 5);
  EXPECT_GT(saves, lives / 5);
  EXPECT_LT(saves, lives * (Killer::kMostOfALife - 1));
}

TEST(KilledSave, LeavesTheNewestOfNumberedCheckpointsWhole) {
  const TemporaryFolder home;
  expect_survival("die_often_while_numbering", home.path());
  Accelerator accelerator(
      {.project_dir = home.path(),
       .project_config = {.automatic_checkpoint_naming = true, .total_limit = 2},
       .communicator = single_communicator()});
  const auto checkpoints = home.path() / "checkpoints";
  accelerator.set_save_iteration(
      numbered_checkpoints(real_file_system(), checkpoints, "checkpoint_").back().number + 1);
  accelerator.save_state();
  auto left = real_file_system().list(checkpoints);
  std::erase(left, ".lock");
  EXPECT_EQ(left.size(), 2U) << "one more save clears up: " << ::testing::PrintToString(left);
}

TEST(KilledSave, LeavesTheOldOrTheNewOneWhereItIsReplaced) {
  const TemporaryFolder home;
  expect_survival("die_often_while_replacing", home.path());
}

// Rank 1 dies when it is to write its files of the third save; rank 0 must hear of it and end.
RANK_MAIN(lose_a_rank_while_saving) {
  const Path folder = Path(std::getenv(kFolder)) / "state";
  Accelerator accelerator;
  Count count;
  accelerator.register_for_checkpointing(count);
  accelerator.register_save_state_pre_hook([&](const Path&) {
    if (count.value == 3 && accelerator.process_index() == 1) raise(SIGKILL);
  });
  if (std::filesystem::exists(folder)) {
    accelerator.load_state(folder);
    std::cout << "loaded " << count.value << std::endl;
    count.value = 10;
    accelerator.save_state(folder);
    return 0;
  }
  try {
    for (count.value = 1; count.value < 5; ++count.value) accelerator.save_state(folder);
  } catch (const CommError& error) {
    std::cout << describe(error) << std::endl;
    return 0;
  }
  return kSaveLost;
}

TEST(KilledSave, OfOneRankEndsTheOthersAndLosesNothing) {
  const TemporaryFolder home;
  const auto run = [&] {
    return testing::run_processes(2, "lose_a_rank_while_saving", {.env = {{kFolder, home.path()}}});
  };
  const auto killed = run();
  EXPECT_EQ(killed[1].exit_code, 128 + SIGKILL) << killed[1].err;
  EXPECT_EQ(killed[0].exit_code, 0) << killed[0].err;
  EXPECT_FALSE(killed[0].timed_out);
  for (const auto& rank : run()) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out, "loaded 2\n");
  }
  auto left = real_file_system().list(home.path());
  std::erase(left, ".lock");
  EXPECT_EQ(left, std::vector<std::string>{"state"}) << "the next save clears up";
}

}  // namespace
}  // namespace accelerate
