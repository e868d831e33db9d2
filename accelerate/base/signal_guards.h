// Keeps signals away: from threads of our own, from a system call, from work that must end first.
#pragma once

#include <pthread.h>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace accelerate {

/// The signal by which thread_stacks.h asks a thread for its stack. Its default is to do nothing, so
/// one that arrives late does no harm.
inline constexpr int kStackSignal = SIGURG;

/// While any object of this class lives, a SIGTERM that would have ended the process is only
/// remembered. It ends the process when the last object is destroyed. Nothing changes where the
/// program handles or ignores SIGTERM itself, nor in a child that was forked meanwhile. Threads:
/// objects may be made and destroyed on any.
class DeferredSigterm {
 public:
  DeferredSigterm();
  ~DeferredSigterm();
  DeferredSigterm(const DeferredSigterm&) = delete;
  DeferredSigterm& operator=(const DeferredSigterm&) = delete;
};

/// While it lives, `signal` is not delivered to the calling thread. If it was raised for the thread
/// meanwhile, it is dropped. For signals by which the kernel answers a call that also fails, and
/// which end a program that expects an error: SIGPIPE of a closed connection, SIGXFSZ of a file that
/// may not grow. Threads that are started meanwhile inherit the signal mask and never get the
/// signal. Python ignores both signals; programs in C++ do not. Keeps errno.
class SuppressedSignal {
 public:
  explicit SuppressedSignal(int signal) {
    sigemptyset(&signals_);
    sigaddset(&signals_, signal);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, signal) == 1;
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~SuppressedSignal() {
    const int error = errno;
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&signals_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  SuppressedSignal(const SuppressedSignal&) = delete;
  SuppressedSignal& operator=(const SuppressedSignal&) = delete;

 private:
  sigset_t signals_{}, before_{};
  bool was_pending_ = false;
};

/// Blocks all signals in the calling thread while alive. Threads that it starts meanwhile inherit
/// the block for good, so the program's handlers run only in threads that the program knows. Leaves
/// out kStackSignal, by which a report of a hang asks every thread for its stack.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigdelset(&all, kStackSignal);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace accelerate
