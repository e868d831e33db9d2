#include "accelerate/launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/launch/child.h"
#include "accelerate/launch/guardian.h"
#include "accelerate/launch/output/error_report.h"
#include "accelerate/launch/output/rank_output.h"
#include "accelerate/launch/process_group.h"
#include "accelerate/launch/program.h"
#include "accelerate/launch/signals.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The exit code of a rank that other code of this process has collected, so that it is lost.
constexpr int kUnknownEnd = 255;

// How often to look where the kernel offers nothing to wait for: in a sandbox without pidfd_open,
// and for processes that are not our children.
constexpr milliseconds kLookAgain{10};
// After SIGKILL a process is gone within moments unless it hangs in the kernel.
constexpr milliseconds kAfterKill{2000};

struct Rank {
  detail::Child child;
  Descriptor ended;  // a pidfd: readable when the process has ended
  RankResult result;
  bool running = true;
};

std::string exec_sentence(const std::string& program, int error) {
  std::string text = "cannot execute '" + program + "': " + std::strerror(error) + ".";
  if (error == ENOEXEC) {
    text += " It is not a program for this machine; a script needs a first line such as #!/bin/sh.";
  } else if (error == ENOENT) {
    text += " The interpreter it names in its first line, or its loader, does not exist.";
  } else if (error == E2BIG) {
    text += " The arguments and the environment together are too long.";
  }
  return text;
}

int exit_code_of(const RankResult& rank) {
  return rank.signal ? 128 + *rank.signal : rank.exit_code.value_or(1);
}

// Whether a rank that failed says by its exit code that a scheduler asked it to end. A death by
// SIGTERM may have any cause; a death by a signal that was passed on has that one.
bool was_asked_to_end(const RankResult& rank, bool passed_on_usr1) {
  if (rank.signal) return *rank.signal == SIGUSR1 && passed_on_usr1;
  return rank.exit_code == 128 + SIGTERM || rank.exit_code == 128 + SIGUSR1;
}

class Supervisor {
 public:
  Supervisor(const LaunchPlan& plan, const LaunchEvents& events, OtherMachines* others)
      : plan_(plan),
        events_(events),
        others_(others),
        guardian_(plan.ranks.size()),
        output_(plan) {}

  LaunchResult run() {
    start();
    while (std::ranges::any_of(ranks_, &Rank::running)) wait_once();
    sweep();
    output_.finish(signals_, result_.interrupted_by ? deadline_ : std::nullopt);
    for (auto& rank : ranks_) result_.ranks.push_back(rank.result);
    return result_;
  }

 private:
  void start() {
    for (std::size_t i = 0; i < plan_.ranks.size(); ++i) {
      try {
        ranks_.push_back(start_rank(static_cast<int>(i)));
      } catch (const LaunchError&) {
        abandon();
        throw;
      }
    }
    // Checked only now, so that the executions of all ranks overlap.
    for (auto& rank : ranks_) {
      if (const int error = detail::exec_error(rank.child)) {
        abandon();
        throw ProgramError(exec_sentence(plan_.argv[0], error), ProgramError::kNotExecutable);
      }
    }
  }

  Rank start_rank(int index) {
    const auto local = static_cast<std::size_t>(index);
    Environment environment = plan_.ranks[local];
    environment.insert(plan_.shared.begin(), plan_.shared.end());
    // Also where there is none: a launcher around this one may have named a file for itself.
    if (plan_.output.has_error_files)
      environment["TORCHELASTIC_ERROR_FILE"] = output_.error_file(local);
    const auto streams = output_.open_streams(local);
    Rank rank;
    started_ = Clock::now();
    std::function<int()> body;
    if (plan_.body) body = [this, index] { return plan_.body(index); };
    rank.child = detail::start_child({.argv = &plan_.argv,
                                      .body = std::move(body),
                                      .closed_by_body = own_descriptors(),
                                      .environment = std::move(environment),
                                      .reads_input = index == 0,
                                      .out = streams.out.get(),
                                      .err = streams.err.get(),
                                      .signal_mask = signals_.mask_before(),
                                      .on_broken_pipe = signals_.pipe_action_before(),
                                      .binding = binding_of(index)});
    guardian_.guard(rank.child.pid);
    rank.ended = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, rank.child.pid, 0)));
    rank.result.rank = plan_.first_rank + index;
    rank.result.pid = rank.child.pid;
    return rank;
  }

  // Returns the launcher's descriptors, which copies must close. Executing a program closes them.
  [[nodiscard]] std::vector<int> own_descriptors() const {
    std::vector<int> descriptors{signals_.fd(), guardian_.fd()};
    if (others_ != nullptr) descriptors.push_back(others_->fd());
    for (const int fd : output_.descriptors()) descriptors.push_back(fd);
    for (const auto& rank : ranks_) {
      if (rank.ended.get() >= 0) descriptors.push_back(rank.ended.get());
      if (rank.child.exec_failure.get() >= 0) descriptors.push_back(rank.child.exec_failure.get());
    }
    return descriptors;
  }

  [[nodiscard]] std::optional<CpuBinding> binding_of(int index) const {
    if (plan_.cores.empty()) return std::nullopt;
    return CpuBinding(plan_.cores[static_cast<std::size_t>(index)]);
  }

  // Kills and collects the ranks that were started, when not all could be.
  void abandon() {
    for (auto& rank : ranks_) {
      detail::signal_group(rank.child.pid, SIGKILL);
      kill(rank.child.pid, SIGKILL);  // it may not lead its group yet
      while (waitpid(rank.child.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }

  void wait_once() {
    std::vector<pollfd> polls = {{signals_.fd(), POLLIN, 0}};
    bool all_watched = true;
    for (const auto& rank : ranks_) {
      if (!rank.running) continue;
      if (rank.ended.get() < 0) all_watched = false;
      polls.push_back({rank.ended.get(), POLLIN, 0});
    }
    if (others_ != nullptr && !result_.elsewhere) polls.push_back({others_->fd(), POLLIN, 0});
    poll(polls.data(), polls.size(), timeout(all_watched));
    heed_signals();
    collect();
    hear_others();
    enforce_deadline();
  }

  // Returns milliseconds for poll(2); -1 to wait without a limit.
  [[nodiscard]] int timeout(bool all_watched) const {
    if (!all_watched) return static_cast<int>(kLookAgain.count());
    if (!deadline_) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*deadline_ - Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  }

  void heed_signals() {
    for (const int signal : signals_.take()) {
      if (signal == SIGTSTP) {
        tell_all(SIGSTOP);
        detail::stop_like_ctrl_z();
        tell_all(SIGCONT);
      } else if (!detail::asks_to_end(signal)) {
        passed_on_usr1_ |= signal == SIGUSR1;
        result_.launcher_was_told |= signal == SIGUSR1;
        tell_all(signal);
      } else if (signal == SIGINT && interrupts_++ > 0) {
        kill_all();
      } else {
        interrupt(signal);
      }
    }
  }

  void interrupt(int signal) {
    result_.launcher_was_told = true;
    if (!result_.was_asked_to_end() && !result_.first_failure) {
      result_.interrupted_by = signal;
      if (events_.interrupted) events_.interrupted(signal);
      tell_others(
          signal == SIGTERM ? EndElsewhere::Kind::preempted : EndElsewhere::Kind::interrupted,
          signal_name(signal) + " asked its launcher to end", 128 + signal);
    }
    stop(signal);
  }

  // What another machine says counts only if nothing has happened here before.
  void hear_others() {
    if (others_ == nullptr || result_.elsewhere) return;
    auto end = others_->news();
    if (!end) return;
    result_.elsewhere = std::move(end);
    if (stopping_) return;
    if (events_.ended_elsewhere) events_.ended_elsewhere(*result_.elsewhere);
    stop(SIGTERM);
  }

  void tell_others(EndElsewhere::Kind kind, const std::string& what, int exit_code) {
    if (others_ == nullptr) return;
    others_->tell({.kind = kind, .machine = 0, .host = {}, .what = what, .exit_code = exit_code});
  }

  // Collects every rank that has ended; the first failure among them ends the group.
  void collect() {
    std::vector<RankResult> failures;
    for (auto& rank : ranks_) {
      int status = W_EXITCODE(kUnknownEnd, 0);
      if (!rank.running || !has_ended(rank.child.pid, status)) continue;
      record(rank, status);
      if (rank.result.failed() && !rank.result.stopped_by_us) failures.push_back(rank.result);
    }
    if (failures.empty() || stopping_) return;
    // A rank that lost one of the first two kinds fails too.
    std::ranges::stable_sort(failures, {}, [this](const RankResult& rank) {
      if (was_asked_to_end(rank, passed_on_usr1_)) return 1;
      return rank.signal ? 0 : 2;
    });
    note_end(failures.front());
    stop(SIGTERM);
  }

  // `rank`: the first that did not succeed.
  void note_end(const RankResult& rank) {
    const bool was_asked = was_asked_to_end(rank, passed_on_usr1_);
    (was_asked ? result_.first_asked : result_.first_failure) = rank.rank;
    const auto& event = was_asked ? events_.rank_was_asked : events_.rank_failed;
    if (event) event(rank);
    tell_others(was_asked ? EndElsewhere::Kind::preempted : EndElsewhere::Kind::failed,
                was_asked ? describe_asked(rank) : describe_rank(rank), exit_code_of(rank));
  }

  // Whether the process has ended. Sets `status`, unless other code has collected the process.
  static bool has_ended(pid_t pid, int& status) {
    const pid_t collected = waitpid(pid, &status, WNOHANG);
    return collected == pid || (collected < 0 && errno == ECHILD);
  }

  void record(Rank& rank, int status) {
    rank.running = false;
    rank.result.ran_for = std::chrono::duration_cast<milliseconds>(Clock::now() - started_);
    rank.result.stopped_by_us = stopping_;
    if (WIFSIGNALED(status)) {
      rank.result.signal = WTERMSIG(status);
    } else {
      rank.result.exit_code = WEXITSTATUS(status);
    }
    if (rank.result.failed()) {
      const auto local = static_cast<std::size_t>(rank.result.rank - plan_.first_rank);
      rank.result.error = detail::read_error_report(output_.error_file(local));
    }
  }

  void stop(int signal) {
    stopping_ = true;
    if (!deadline_ && !killed_) deadline_ = Clock::now() + plan_.grace_period;
    tell_all(signal);
  }

  void enforce_deadline() {
    if (deadline_ && Clock::now() >= *deadline_) kill_all();
  }

  void kill_all() {
    stopping_ = true;
    deadline_.reset();
    if (!killed_ && events_.killing) events_.killing();
    killed_ = true;
    tell_all(SIGKILL);
  }

  // A group may outlive its leader, so the groups of ended ranks get the signal too.
  void tell_all(int signal) {
    for (const auto& rank : ranks_) detail::signal_group(rank.child.pid, signal);
  }

  [[nodiscard]] bool any_group_runs() const {
    return std::ranges::any_of(ranks_,
                               [](const Rank& r) { return detail::group_runs(r.child.pid); });
  }

  // Ends what the ranks have left behind in their groups.
  void sweep() {
    if (!any_group_runs()) return;
    if (!stopping_) stop(SIGTERM);
    auto give_up = Clock::time_point::max();
    while (any_group_runs() && Clock::now() < give_up) {
      pollfd wake = {signals_.fd(), POLLIN, 0};
      poll(&wake, 1, static_cast<int>(kLookAgain.count()));
      heed_signals();
      enforce_deadline();
      if (killed_ && give_up == Clock::time_point::max()) give_up = Clock::now() + kAfterKill;
    }
  }

  const LaunchPlan& plan_;
  const LaunchEvents& events_;
  OtherMachines* others_;
  detail::SignalScope signals_;  // first: writing to the guardian's broken pipe must not kill us
  detail::Guardian guardian_;
  detail::RankOutput output_;
  std::vector<Rank> ranks_;
  LaunchResult result_;
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point> deadline_;
  int interrupts_ = 0;
  bool passed_on_usr1_ = false;
  bool stopping_ = false;
  bool killed_ = false;
};

}  // namespace

const RankResult* LaunchResult::failed_rank() const {
  const auto found = std::ranges::find_if(
      ranks, [&](const RankResult& rank) { return rank.rank == first_failure; });
  return found == ranks.end() ? nullptr : &*found;
}

int LaunchResult::exit_code() const {
  if (interrupted_by) return 128 + *interrupted_by;
  const auto first = std::ranges::find_if(ranks, [&](const RankResult& rank) {
    return rank.rank == first_failure || rank.rank == first_asked;
  });
  if (first != ranks.end()) return exit_code_of(*first);
  return elsewhere ? elsewhere->exit_code : 0;
}

LaunchResult launch(const LaunchPlan& plan, const LaunchEvents& events, OtherMachines* others) {
  if ((plan.argv.empty() && !plan.body) || plan.ranks.empty()) {
    throw LaunchError("there is nothing to launch: the plan has no program or no ranks");
  }
  if (!plan.cores.empty() && plan.cores.size() != plan.ranks.size()) {
    throw LaunchError("the plan has " + std::to_string(plan.ranks.size()) +
                      " ranks and cores for " + std::to_string(plan.cores.size()) + " of them");
  }
  return Supervisor(plan, events, others).run();
}

}  // namespace accelerate
