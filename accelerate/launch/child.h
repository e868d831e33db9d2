// Starts one process so that nothing of the launcher leaks into it and it cannot outlive the
// launcher.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/launch/plan.h"

namespace accelerate::detail {

struct ChildOptions {
  const std::vector<std::string>* argv;  ///< argv[0] is the path to execute.
  std::function<int()> body = {};        ///< Called instead of executing; returns the exit code.
  std::vector<int> closed_by_body = {};  ///< Descriptors of the launcher, closed before `body`.
  Environment environment;               ///< Added to the caller's environment.
  bool reads_input = false;              ///< Reads the caller's standard input, else /dev/null.
  int out = -1;                          ///< Its standard output; -1: the caller's.
  int err = -1;                          ///< Its standard error; -1: the caller's.
  sigset_t signal_mask;                  ///< Mask the program starts with.
  struct sigaction on_broken_pipe;       ///< What SIGPIPE does in the program.
  /// Cores that the process is bound to, and with it every thread that it will ever start.
  std::optional<CpuBinding> binding = {};
};

/// A process that is about to become the program.
struct Child {
  pid_t pid = -1;
  Descriptor exec_failure;  ///< Yields the errno of a failed execve, nothing when it worked.
};

/// Forks a process that executes the program. The process leads its own session, so its descendants
/// can be ended as one group. It may still read and write the terminal, because job control only
/// applies to the terminal's own session. The kernel kills it when the calling thread ends. Returns
/// before the program is known to run. Throws LaunchError when no process can be started.
[[nodiscard]] Child start_child(const ChildOptions& options);

/// Waits until the program runs or has failed to. Returns 0, or the errno of execve. Cost: the time
/// of the execution.
[[nodiscard]] int exec_error(Child& child);

}  // namespace accelerate::detail
