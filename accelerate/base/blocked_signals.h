// Keeps signals away from threads of our own.
#pragma once

#include <csignal>

namespace accelerate {

/// While this lives, the calling thread takes no signals, and neither do, ever, threads that it
/// begins: handlers of the program's run where it expects them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace accelerate
