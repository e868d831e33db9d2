#include "accelerate/transformers/trainer/loop/stop_signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

namespace accelerate::detail {
namespace {

constexpr std::array kSignals{SIGTERM, SIGINT};
std::atomic<int> stop_signal{0};
std::atomic<pid_t> stop_owner{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void end_by_default_action(int signal) {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::kill(::getpid(), signal);
}

// A forked process has the handler, but no loop that asks. A user who presses Ctrl-C twice does not
// want to wait.
void remember_stop(int signal) {
  const int error = errno;
  const bool again = stop_signal.exchange(signal) != 0;
  if (stop_owner != ::getpid() || (again && signal == SIGINT)) end_by_default_action(signal);
  errno = error;
}

}  // namespace

StopSignals::StopSignals() {
  stop_signal = 0;
  stop_owner = ::getpid();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction present{};
    ::sigaction(kSignals[i], nullptr, &present);
    if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction action{};
    action.sa_handler = remember_stop;
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], &action, nullptr);
    catches_[i] = true;
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (!catches_[i]) continue;
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

int StopSignals::received() {
  return stop_signal;
}

}  // namespace accelerate::detail
