// The signals the launcher lives with.
#pragma once

#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "accelerate/launch/child.h"

namespace accelerate::detail {

/// While alive the signals a launcher cares about arrive through a file descriptor instead of
/// interrupting, writing to a closed pipe is an error instead of a death, and an ended child waits
/// to be collected, also where SIGCHLD was inherited as ignored. Restores all at the end.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  /// Readable when a signal has arrived.
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The signals that have arrived since, oldest first; empty when there was none.
  [[nodiscard]] std::vector<int> take();
  [[nodiscard]] const sigset_t& mask_before() const { return mask_before_; }
  [[nodiscard]] const struct sigaction& pipe_action_before() const { return pipe_before_; }

 private:
  FileDescriptor fd_;
  sigset_t mask_before_;
  struct sigaction pipe_before_;
  struct sigaction child_before_;
};

/// Stops the calling process as Ctrl-Z would, and returns when it was continued.
void stop_like_ctrl_z();

/// SIGINT, SIGTERM, SIGHUP, SIGQUIT: asks the launcher to end.
[[nodiscard]] bool asks_to_end(int signal);

}  // namespace accelerate::detail
