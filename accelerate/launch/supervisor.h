// Runs a plan: starts every rank, waits, and ends the group as one. No rank, and nothing that a
// rank started in its process group, outlives the call. Nor does it outlive the calling process if
// that is killed.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/plan.h"

namespace accelerate {

/// How one rank ended. Exactly one of exit_code and signal is set.
struct RankResult {
  int rank = 0;
  pid_t pid = -1;
  std::optional<int> exit_code;
  std::optional<int> signal;  ///< The signal that killed it.
  std::chrono::milliseconds ran_for{0};
  bool stopped_by_us = false;  ///< It ended after the launcher had told it to.
  /// What it said of its end in the file of TORCHELASTIC_ERROR_FILE, safe to print; often empty.
  std::string error = {};

  [[nodiscard]] bool failed() const { return signal.has_value() || exit_code.value_or(0) != 0; }
};

/// Why the ranks of this machine end although none of them failed: something happened on another
/// machine of the job.
struct EndElsewhere {
  enum class Kind {
    failed,       ///< A rank failed.
    interrupted,  ///< A person asked its launcher to end.
    lost,         ///< Its launcher was killed, or it cannot be reached any more.
    joined,       ///< It wants to take part in a job that has begun.
    preempted,    ///< A scheduler asked its launcher or its ranks to end.
  };

  Kind kind = Kind::failed;
  int machine = 0;   ///< Number of that machine in the job.
  std::string host;  ///< Its name.
  /// What happened there, e.g. "rank 3 (pid 4242) exited with code 7 after 0.2 s".
  std::string what;
  int exit_code = 1;  ///< With which all launchers end.
};

/// What a launcher knows of the other machines of its job.
class OtherMachines {
 public:
  virtual ~OtherMachines() = default;
  /// A descriptor that becomes readable when there may be news.
  [[nodiscard]] virtual int fd() const = 0;
  /// Returns the first end that another machine told of; nullopt if there is none. Does not block.
  [[nodiscard]] virtual std::optional<EndElsewhere> news() = 0;
  /// Tells the other machines that the ranks of this one end, with the kind, `what` and `exit_code`
  /// of `end`.
  /// Never throws.
  virtual void tell(const EndElsewhere& end) = 0;
};

struct LaunchResult {
  std::vector<RankResult> ranks;     ///< In the order of ranks.
  std::optional<int> first_failure;  ///< The rank whose failure ended the group.
  std::optional<int> first_asked;    ///< The rank that ended the group because it was asked to end.
  std::optional<int> interrupted_by;  ///< The signal that asked the launcher to end.
  /// Whether the launcher itself got a signal to end, or passed a SIGUSR1 on.
  bool launcher_was_told = false;
  std::optional<EndElsewhere> elsewhere;  ///< What ended the group from another machine.

  /// The result of the rank that failed first; null if none did.
  [[nodiscard]] const RankResult* failed_rank() const;
  /// Whether the launcher or a rank was asked to end. Then nothing is started again.
  [[nodiscard]] bool was_asked_to_end() const { return interrupted_by || first_asked; }
  /// 0 when every rank succeeded, 128 + signal if the launcher or a rank was asked to end, else the
  /// exit code of the first failure (128 + its signal when one killed it), here or on another
  /// machine.
  [[nodiscard]] int exit_code() const;
};

/// Tells what happens while ranks run, e.g. to inform the user. Called on the thread of launch().
struct LaunchEvents {
  /// A rank failed; the other ranks are told to end.
  std::function<void(const RankResult&)> rank_failed;
  /// A rank ended because it was asked to; the other ranks are told to end.
  std::function<void(const RankResult&)> rank_was_asked;
  /// The launcher was asked to end; the ranks were sent the same signal.
  std::function<void(int signal)> interrupted;
  /// Another machine ended the job; the ranks here are told to end.
  std::function<void(const EndElsewhere&)> ended_elsewhere;
  /// Ranks that did not end in the grace period, or after a second SIGINT, are killed.
  std::function<void()> killing;
};

/// Starts plan.ranks processes and returns when all have ended.
///
/// The first rank that fails ends the group: SIGTERM to all, SIGKILL after plan.grace_period. If
/// several ranks are found dead at the same moment, one that a signal killed counts as first. The
/// others have probably only noticed its death. A rank that exits with 0 early is no failure.
///
/// A rank that exits with 143 or 138, which is 128 + SIGTERM or SIGUSR1, says that it was asked to
/// end. It ends the group as a failure does, but it is no failure. Nor is a death by SIGUSR1 if the
/// caller passed that signal on.
///
/// SIGINT, SIGTERM, SIGHUP and SIGQUIT to the caller go to every rank, with the same grace period;
/// a second SIGINT kills immediately. SIGUSR1, SIGUSR2 and SIGWINCH are passed on. SIGTSTP stops
/// the ranks too. Signals that were ignored stay ignored (nohup). Rank 0 reads the caller's
/// standard input, the other ranks read /dev/null.
///
/// Threads: the caller's signal mask is changed during the call, so no other thread of the process
/// may have these signals unblocked. Throws LaunchError when a rank cannot be started; the ranks
/// that were started are ended first. Cost: about a millisecond a rank; no polling.
///
/// `others`: the other machines of the job, which hear of a failure or an interruption here, and
/// whose end ends the ranks here as a failure does; null if there are none.
LaunchResult launch(const LaunchPlan& plan, const LaunchEvents& events = {},
                    OtherMachines* others = nullptr);

// How a launch went, in words for a terminal.

/// The name of a signal: "SIGSEGV", or "signal 42" for one without a name.
[[nodiscard]] std::string signal_name(int signal);

/// "rank 1 (pid 4242) was killed by SIGSEGV (Segmentation fault) after 0.2 s", and the error that
/// the rank told of.
[[nodiscard]] std::string describe_rank(const RankResult& rank);

/// "rank 1 (pid 4242) ended after 8.1 s because it was asked to (SIGUSR1)".
[[nodiscard]] std::string describe_asked(const RankResult& rank);

/// Names, in a sentence, what often ends a rank like this; "" if there is nothing to name.
[[nodiscard]] std::string likely_cause(const RankResult& rank);

/// "machine 1 (node-b): rank 3 (pid 4242) exited with code 7 after 0.2 s".
[[nodiscard]] std::string describe_end(const EndElsewhere& end);

/// Says what became of the ranks other than the first failure, in lines that end with a line end.
/// Empty when there is nothing to tell.
[[nodiscard]] std::string describe_others(const LaunchResult& result);

}  // namespace accelerate
