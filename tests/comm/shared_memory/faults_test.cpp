// What happens to a rank, in every phase of a group's life: the others end with an error that names
// it, or go on as if nothing had been.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "accelerate/base/error.h"
#include "tests/support/ranks.h"
#include "tests/support/scenario.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well

constexpr int kRanks = 3;
constexpr std::int64_t kLarge = std::int64_t{6} << 20;  // Elements: 24 MiB.
constexpr const char* kReason = "the disk is full";
constexpr const char* kException = "sample 17 is broken";

enum class Fault { killed, stopped_briefly, stopped_too_long, exits, throws, aborts };
enum class Phase {
  before_the_first,
  waiting,
  large_staged,
  large_in_place,
  between,
  messages,
  splitting,
  destroying
};
constexpr const char* kFaults[] = {"killed", "stopped_briefly", "stopped_too_long",
                                   "exits",  "throws",          "aborts"};
constexpr const char* kPhases[] = {"before_the_first", "waiting",  "large_staged", "large_in_place",
                                   "between",          "messages", "splitting",    "destroying"};

struct Case {
  Fault fault;
  Phase phase;
  int victim;
  [[nodiscard]] bool from_outside() const { return fault <= Fault::stopped_too_long; }
  [[nodiscard]] int rounds() const { return fault == Fault::stopped_briefly ? 8 : 1'000'000; }
  [[nodiscard]] std::string name() const {
    return std::string(kFaults[static_cast<int>(fault)]) + " / " +
           kPhases[static_cast<int>(phase)] + " / rank " + std::to_string(victim);
  }
};

void require_all(const at::Tensor& tensor, double value) {
  if ((tensor == value).all().item<bool>()) return;
  throw DataError("a wrong result: not all are " + std::to_string(value));
}

double sum_of_ranks(const Communicator& comm, int round) {
  return comm.size() * (comm.size() - 1) / 2.0 + comm.size() * round;
}

// The part of one rank in a case.
class Part {
 public:
  Part(const Case& test, std::shared_ptr<Communicator> comm, Stage& stage)
      : test_(test), comm_(std::move(comm)), stage_(stage) {}

  void perform() {
    switch (test_.phase) {
      case Phase::before_the_first:
        return begin();
      case Phase::waiting:
        return wait_for_a_late_one();
      case Phase::large_staged:
        return reduce_often(at::empty({kLarge}));
      case Phase::large_in_place:
        return reduce_often(comm_->empty({kLarge}, at::kFloat));
      case Phase::between:
        reduce(at::empty({1000}), 0);
        if (is_victim()) pause();
        return reduce(at::empty({1000}), 1);
      case Phase::messages:
        return pass_around();
      case Phase::splitting:
        return split_often();
      case Phase::destroying:
        return leave();
    }
  }

 private:
  [[nodiscard]] bool is_victim() const { return comm_->rank() == test_.victim; }

  // The victim's moment: it does what it does, or shows that it may be struck.
  void strike() {
    if (test_.fault == Fault::exits) _exit(0);
    if (test_.fault == Fault::throws) throw DataError(kException);
    if (test_.fault == Fault::aborts) {
      comm_->abort(kReason);
      throw DataError(kReason);
    }
    ++stage_.steps[static_cast<std::size_t>(test_.victim)];
  }

  // Nobody is lost before all have met.
  void begin() {
    if (is_victim()) {
      for (int rank = 0; rank < comm_->size(); ++rank) {
        if (rank != comm_->rank()) (void)stage_.wait_for_step(rank, 1);
      }
      pause();
    } else {
      stage_.steps[static_cast<std::size_t>(comm_->rank())] = 1;
    }
    reduce(at::empty({64}), 0);
  }

  void pause() {
    strike();
    stage_.wait_for_release();
  }

  void reduce(at::Tensor tensor, int round) {
    tensor.fill_(comm_->rank() + round);
    auto work = comm_->all_reduce(tensor, ReduceOp::sum);
    if (is_victim() && round == 3) strike();
    work.wait();
    require_all(tensor, sum_of_ranks(*comm_, round));
  }

  void reduce_often(const at::Tensor& tensor) {
    for (int round = 0; round < test_.rounds(); ++round) reduce(tensor, round);
  }

  void wait_for_a_late_one() {
    comm_->barrier();
    if (comm_->rank() == (test_.victim + 1) % comm_->size()) {
      if (test_.from_outside()) stage_.wait_for_release();
    }
    reduce(at::empty({1000}), 3);  // What it has done before it is lost still counts.
    reduce(at::empty({1000}), 4);
  }

  void pass_around() {
    const int next = (comm_->rank() + 1) % comm_->size();
    const int before = (comm_->rank() + comm_->size() - 1) % comm_->size();
    at::Tensor out = at::empty({kLarge / 8}), in = at::empty({kLarge / 8});
    for (int round = 0; round < test_.rounds(); ++round) {
      out.fill_(comm_->rank() + round);
      auto sent = comm_->send(out, next, round % 3);
      if (is_victim() && round == 3) strike();
      comm_->receive(in, before, round % 3).wait();
      sent.wait();
      require_all(in, before + round);
    }
  }

  void split_often() {
    for (int round = 0; round < test_.rounds(); ++round) {
      if (is_victim() && round == 3) pause();
      const auto part = comm_->split({0, 1, 2});
      at::Tensor tensor = at::full({100}, part->rank());
      part->all_reduce(tensor, ReduceOp::sum).wait();
      require_all(tensor, 3);
    }
  }

  void leave() {
    reduce(at::empty({1000}), 0);
    if (!is_victim()) return reduce(at::empty({1000}), 1);
    if (test_.from_outside()) strike();
    comm_.reset();
    if (test_.fault == Fault::exits) _exit(0);
    stage_.wait_for_release();
  }

  Case test_;
  std::shared_ptr<Communicator> comm_;
  Stage& stage_;
};

// The watcher's part.
void act(const Case& test, Stage& stage, const std::vector<pid_t>& pids, Findings& findings) {
  const pid_t victim = pids[static_cast<std::size_t>(test.victim)];
  const bool waits = test.from_outside();
  if (waits)
    findings.expect(stage.wait_for_step(test.victim, 1), test.name() + ": never came so far");
  std::this_thread::sleep_for(waits ? 5ms : 0ms);
  if (test.fault == Fault::killed) kill(victim, SIGKILL);
  if (waits && test.fault != Fault::killed) kill(victim, SIGSTOP);
  if (test.phase == Phase::waiting) stage.released = true;
  if (test.fault == Fault::stopped_briefly) std::this_thread::sleep_for(300ms);
  if (test.fault == Fault::stopped_too_long) {
    findings.expect(stage.wait_for_end_of_all_but(test.victim, kRanks),
                    test.name() + ": the others wait for longer than their timeout");
  }
  if (waits && test.fault != Fault::killed) kill(victim, SIGCONT);
  if (test.fault == Fault::stopped_briefly || test.fault == Fault::stopped_too_long) {
    stage.released = true;
  }
  findings.expect(stage.wait_for_end_of_all_but(test.victim, kRanks),
                  test.name() + ": the others wait for more than 20 s");
  stage.released = true;
}

// What the error of `other` says.
std::vector<std::string> words_of(const Case& test, const std::vector<Ended>& ended, int other) {
  const std::string rank = "rank " + std::to_string(test.victim);
  const std::string process =
      "process " + std::to_string(ended[static_cast<std::size_t>(test.victim)].pid);
  if (test.phase == Phase::destroying) return {rank};
  switch (test.fault) {
    case Fault::killed:
    case Fault::exits:
      return {rank, process, "has died"};
    case Fault::throws:
      return {rank + " gave up", "exception"};
    case Fault::aborts:
      return {rank + " gave up: " + kReason};
    case Fault::stopped_briefly:
      return {};
    case Fault::stopped_too_long:
      // A rank that waits for a message knows its sender alone. The sender waits for the victim,
      // and the rank whose clock runs out first says for whom it waited.
      if (test.phase == Phase::messages && (test.victim + 1) % kRanks != other) return {"timeout"};
      return {rank, "timeout"};
  }
  return {};
}

std::optional<int> victims_end(const Case& test) {
  if (test.fault == Fault::killed) return 128 + SIGKILL;
  if (test.fault == Fault::exits || test.fault == Fault::stopped_briefly) return kFine;
  if (test.phase == Phase::destroying) return kFine;
  if (test.fault == Fault::stopped_too_long) return std::nullopt;  // Depends on what it had done.
  return kOtherError;
}

void check(const Case& test, Findings& findings) {
  Scenario scenario;
  if (test.fault == Fault::stopped_too_long) scenario.timeout = 2s;
  scenario.body = [test](std::shared_ptr<Communicator> comm, Stage& stage) {
    Part(test, std::move(comm), stage).perform();
  };
  scenario.outside = [&](Stage& stage, const std::vector<pid_t>& pids) {
    act(test, stage, pids, findings);
  };
  const auto ended = play(scenario);
  const bool goes_on = test.fault == Fault::stopped_briefly && test.phase != Phase::destroying;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == test.victim) continue;
    const auto& other = ended[static_cast<std::size_t>(rank)];
    findings.expect_ended(other, goes_on ? kFine : kCommError, words_of(test, ended, rank),
                          test.name());
  }
  const auto& victim = ended[static_cast<std::size_t>(test.victim)];
  if (const auto status = victims_end(test)) {
    findings.expect_ended(victim, *status, {}, test.name() + " (itself)");
  } else {
    findings.expect(victim.status != kHung, test.name() + " (itself) hangs");
  }
}

RANK_MAIN(play_a_fault_in_every_phase) {
  Findings findings;
  const int fault = std::stoi(argument());
  for (int phase = 0; phase <= static_cast<int>(Phase::destroying); ++phase) {
    check({static_cast<Fault>(fault), static_cast<Phase>(phase), (phase + fault) % kRanks},
          findings);
  }
  findings.expect_nothing_left();
  return findings.exit_code();
}

class SharedMemoryFaults : public ::testing::TestWithParam<int> {};

TEST_P(SharedMemoryFaults, InEveryPhaseEndTheOthersWithAnErrorThatNamesTheRank) {
  expect_no_findings("play_a_fault_in_every_phase", std::to_string(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Faults, SharedMemoryFaults, ::testing::Range(0, 6),
                         [](const auto& info) { return kFaults[info.param]; });

}  // namespace
}  // namespace accelerate::testing
