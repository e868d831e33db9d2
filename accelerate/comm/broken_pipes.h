// Keeps SIGPIPE away from threads that write to connections.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace accelerate::detail {

/// While it lives, a write to a connection that the peer has closed does not raise SIGPIPE on the
/// calling thread. Threads that are started meanwhile inherit the signal mask and never get the
/// signal. Gloo and c10d's store report such a write as an error if the process survives it. Python
/// ignores the signal; programs in C++ do not.
class WithoutBrokenPipes {
 public:
  WithoutBrokenPipes() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutBrokenPipes() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutBrokenPipes(const WithoutBrokenPipes&) = delete;
  WithoutBrokenPipes& operator=(const WithoutBrokenPipes&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace accelerate::detail
