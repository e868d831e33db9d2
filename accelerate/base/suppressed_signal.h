// Keeps a signal away from one thread for the time of a system call.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace accelerate {

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

}  // namespace accelerate
