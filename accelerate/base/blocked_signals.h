// Keeps signals away from threads of our own.
#pragma once

#include <csignal>

namespace accelerate {

/// Blocks all signals in the calling thread while alive. Threads that it starts meanwhile inherit
/// the block for good, so the program's handlers run only in threads that the program knows.
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
