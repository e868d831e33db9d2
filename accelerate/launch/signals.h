// The signals that the launcher handles.
#pragma once

#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// While alive, the launcher's signals arrive through a file descriptor instead of interrupting.
/// Writing to a closed pipe is an error instead of a death. An ended child waits to be collected,
/// even where SIGCHLD was inherited as ignored. The destructor restores everything.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  /// Readable when a signal has arrived.
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Takes the signals that have arrived since the last call, in the kernel's order; empty if none.
  [[nodiscard]] std::vector<int> take();
  [[nodiscard]] const sigset_t& mask_before() const { return mask_before_; }
  [[nodiscard]] const struct sigaction& pipe_action_before() const { return pipe_before_; }

 private:
  Descriptor fd_;
  sigset_t mask_before_;
  struct sigaction pipe_before_;
  struct sigaction child_before_;
};

/// Stops the calling process as Ctrl-Z would, and returns when it is continued.
void stop_like_ctrl_z();

/// Whether `signal` asks the launcher to end: SIGINT, SIGTERM, SIGHUP and SIGQUIT do.
[[nodiscard]] bool asks_to_end(int signal);

}  // namespace accelerate::detail
