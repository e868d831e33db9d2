#include "accelerate/base/signal_guards.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace accelerate {
namespace {

// All that the handler touches. They are lock-free, so the handler may interrupt any code.
std::atomic<bool> asked{false};
std::atomic<pid_t> owner{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void end_by_default() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &action, nullptr);
  // Sent to the process, not to this thread, which may block the signal.
  ::kill(::getpid(), SIGTERM);
}

void remember(int) {
  const int error = errno;
  if (owner == ::getpid()) {
    asked = true;
  } else {
    end_by_default();  // A forked child inherits the handler, but has nothing to wait for.
  }
  errno = error;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == remember;
}

bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

struct Guards {
  std::mutex mutex;
  int alive = 0;
};

Guards& guards() {
  static auto* const one = new Guards;  // Never destroyed: a guard may outlive main().
  return *one;
}

}  // namespace

DeferredSigterm::DeferredSigterm() {
  const std::lock_guard lock(guards().mutex);
  if (guards().alive++ > 0) return;
  struct sigaction present{};
  ::sigaction(SIGTERM, nullptr, &present);
  if (!is_default(present)) return;
  asked = false;
  owner = ::getpid();
  struct sigaction action{};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}

DeferredSigterm::~DeferredSigterm() {
  const std::lock_guard lock(guards().mutex);
  if (--guards().alive > 0) return;
  struct sigaction present{};
  ::sigaction(SIGTERM, nullptr, &present);
  if (!is_ours(present)) return;
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &action, nullptr);
  // Read after the default is back: a signal that came in between has already ended the process.
  if (asked.exchange(false)) ::kill(::getpid(), SIGTERM);
}

}  // namespace accelerate
