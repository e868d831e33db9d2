// Random ranks, collectives, sizes and kinds of memory, and one random fault at a random moment.
// ACCELERATE_RANDOM_FAULTS says how many scenarios (50), ACCELERATE_RANDOM_SEED where they begin.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <random>
#include <string>
#include <thread>

#include "accelerate/base/error.h"
#include "tests/support/ranks.h"
#include "tests/support/scenario.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well

constexpr int kOperations = 30;
enum class RandomFault { none, killed, stopped_briefly, exits, throws, aborts };

// The same on all ranks that draw from the same seed.
struct Plan {
  explicit Plan(unsigned seed) : random(seed) {
    ranks = draw(2, kMostRanks);
    fault = static_cast<RandomFault>(draw(0, 5));
    victim = draw(0, ranks - 1);
    at_operation = draw(0, kOperations - 1);
    delay = std::chrono::microseconds(draw(0, 3000));
  }
  int draw(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }
  [[nodiscard]] bool is_deadly() const {
    return fault != RandomFault::none && fault != RandomFault::stopped_briefly;
  }
  [[nodiscard]] bool from_outside() const {
    return fault == RandomFault::killed || fault == RandomFault::stopped_briefly;
  }

  std::mt19937 random;
  int ranks, victim, at_operation;
  RandomFault fault;
  std::chrono::microseconds delay;
};

void require_all(const at::Tensor& tensor, double value, const std::string& what) {
  if ((tensor == value).all().item<bool>()) return;
  throw DataError("a wrong result of " + what + ": not all are " + std::to_string(value));
}

class Player {
 public:
  Player(unsigned seed, Communicator& comm, Stage& stage)
      : plan_(seed), comm_(comm), stage_(stage) {}

  void play() {
    for (int number = 0; number < kOperations; ++number) {
      number_ = number;
      stage_.steps[static_cast<std::size_t>(comm_.rank())] = number + 1;
      if (is_moment()) strike_between();
      operate();
      while (plan_.draw(0, 2) > 0 && !pending_.empty()) finish_one();
    }
    while (!pending_.empty()) finish_one();
    comm_.barrier();
  }

 private:
  struct Pending {
    Work work;
    std::function<void()> check;
  };

  [[nodiscard]] bool is_moment() const {
    return comm_.rank() == plan_.victim && number_ == plan_.at_operation;
  }

  void strike_between() {
    if (plan_.fault == RandomFault::exits) _exit(0);
    if (plan_.fault == RandomFault::throws) throw DataError("sample 17 is broken");
    if (plan_.fault != RandomFault::aborts) return;
    comm_.abort("the disk is full");
    throw DataError("the disk is full");
  }

  // Up to 4 MiB, and often around where one way of doing it ends.
  std::int64_t elements() {
    const int kind = plan_.draw(0, 3);
    if (kind == 0) return plan_.draw(1, 64);
    if (kind == 1) return 4096 + plan_.draw(-2, 2);
    if (kind == 2) return 16384 + plan_.draw(-3, 3);
    return plan_.draw(20'000, 1 << 20);
  }

  at::Tensor tensor(std::int64_t count, double value) {
    const bool shared = plan_.draw(0, 1) == 1;
    const at::Tensor made = shared ? comm_.empty({count}, at::kFloat) : at::empty({count});
    return made.fill_(value);
  }

  void keep(Work work, std::function<void()> check) {
    pending_.push_back({std::move(work), std::move(check)});
  }

  void finish_one() {
    Pending first = std::move(pending_.front());
    pending_.erase(pending_.begin());
    first.work.wait();
    first.check();
  }

  void operate() {
    const std::int64_t count = elements();
    const int size = comm_.size(), rank = comm_.rank(), number = number_;
    const int root = plan_.draw(0, size - 1);
    const double sum = size * (size - 1) / 2.0 + size * number;
    switch (plan_.draw(0, 6)) {
      case 0: {
        auto all = tensor(count, rank + number);
        return keep(comm_.all_reduce(all, ReduceOp::sum),
                    [=] { require_all(all, sum, "all_reduce"); });
      }
      case 1: {
        auto all = tensor(count, rank == root ? number : -1);
        return keep(comm_.broadcast(all, root), [=] { require_all(all, number, "broadcast"); });
      }
      case 2: {
        auto mine = tensor(count, rank + number), all = tensor(count * size, -1);
        return keep(comm_.all_gather(all, mine), [=] {
          for (int r = 0; r < size; ++r) {
            require_all(all.narrow(0, r * count, count), r + number, "all_gather");
          }
        });
      }
      case 3: {
        auto part = tensor(count, -1), whole = tensor(count * size, rank + number);
        return keep(comm_.reduce_scatter(part, whole, ReduceOp::sum),
                    [=] { require_all(part, sum, "reduce_scatter"); });
      }
      case 4: {
        auto mine = tensor(count, rank + number);
        return keep(comm_.reduce(mine, root, ReduceOp::sum), [=] {
          if (rank == root) require_all(mine, sum, "reduce");
        });
      }
      case 5: {
        auto out = tensor(count, rank + number), in = tensor(count, -1);
        const int next = (rank + 1) % size, before = (rank + size - 1) % size;
        keep(comm_.send(out, next), [] {});
        return keep(comm_.receive(in, before),
                    [=] { require_all(in, before + number, "receive"); });
      }
      default:
        return comm_.barrier();
    }
  }

  Plan plan_;
  Communicator& comm_;
  Stage& stage_;
  int number_ = 0;
  std::vector<Pending> pending_;
};

void act(const Plan& plan, Stage& stage, const std::vector<pid_t>& pids) {
  if (!plan.from_outside()) return;
  // Nobody is lost before all have met.
  for (int rank = 0; rank < plan.ranks; ++rank) (void)stage.wait_for_step(rank, 1);
  (void)stage.wait_for_step(plan.victim, plan.at_operation + 1);
  std::this_thread::sleep_for(plan.delay);
  const pid_t victim = pids[static_cast<std::size_t>(plan.victim)];
  if (plan.fault == RandomFault::killed) {
    kill(victim, SIGKILL);
    return;
  }
  kill(victim, SIGSTOP);
  std::this_thread::sleep_for(150ms);
  kill(victim, SIGCONT);
}

// One that came to its end before the signal did is as good as unharmed.
void check(unsigned seed, Findings& findings) {
  const Plan plan(seed);
  Scenario scenario;
  scenario.ranks = plan.ranks;
  scenario.body = [seed](const std::shared_ptr<Communicator>& comm, Stage& stage) {
    Player(seed, *comm, stage).play();
  };
  scenario.outside = [&](Stage& stage, const std::vector<pid_t>& pids) { act(plan, stage, pids); };
  const auto ended = play(scenario);
  const auto& victim = ended[static_cast<std::size_t>(plan.victim)];
  const std::string where = "seed " + std::to_string(seed) + ", fault " +
                            std::to_string(static_cast<int>(plan.fault)) + " on rank " +
                            std::to_string(plan.victim) + " of " + std::to_string(plan.ranks);
  const bool escaped = plan.fault == RandomFault::killed && victim.status == kFine;
  const bool at_its_end = plan.fault == RandomFault::killed && victim.status == 128 + SIGKILL;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& other = ended[static_cast<std::size_t>(rank)];
    if (rank == plan.victim && plan.is_deadly()) {
      findings.expect(other.status != kHung, where + ": hangs itself");
    } else if (!plan.is_deadly() || escaped || (at_its_end && other.status == kFine)) {
      findings.expect_ended(other, kFine, {}, where);
    } else {
      findings.expect_ended(other, kCommError, {"rank " + std::to_string(plan.victim)}, where);
    }
  }
}

RANK_MAIN(play_random_faults) {
  Findings findings;
  const unsigned count = number_in("ACCELERATE_RANDOM_FAULTS", 50);
  const unsigned seed = number_in("ACCELERATE_RANDOM_SEED", std::random_device{}() % 1'000'000'000);
  for (unsigned i = 0; i < count; ++i) check(seed + i, findings);
  findings.expect_nothing_left();
  std::cout << count << " scenarios from seed " << seed << std::endl;
  return findings.exit_code();
}

TEST(SharedMemoryRandomFaults, NeitherHangNorSpoilResultsNorLeaveAnything) {
  const unsigned count = number_in("ACCELERATE_RANDOM_FAULTS", 50);
  expect_no_findings("play_random_faults", "", 200s + count * 2s);
}

}  // namespace
}  // namespace accelerate::testing
