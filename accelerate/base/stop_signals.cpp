#include "accelerate/base/stop_signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace accelerate {
namespace {

// From the one that counts least to the one that counts most.
constexpr std::array kStops{SIGUSR1, SIGTERM, SIGINT};

// All that the handler touches. They are lock-free, so the handler may interrupt any code.
std::atomic<int> first_stop{0};
std::atomic<bool> first_was_by_parent{false};
std::atomic<pid_t> stop_owner{0};
std::atomic<pid_t> stop_parent{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

void end_by(int signal) {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  // Sent to the process, not to this thread, which may block the signal.
  ::kill(::getpid(), signal);
}

// A forked process has the handler, but no loop that asks. A user who presses Ctrl-C twice does not
// want to wait.
void remember_stop(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const bool is_by_parent = info->si_code == SI_USER && info->si_pid == stop_parent;
  int none = 0;
  const bool is_first = first_stop.compare_exchange_strong(none, signal);
  if (is_first) first_was_by_parent = is_by_parent;
  const bool is_passed_on = first_was_by_parent != is_by_parent;
  if (stop_owner != ::getpid() || (!is_first && signal == SIGINT && !is_passed_on)) end_by(signal);
  errno = error;
}

bool is_default_of(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool is_remembered(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == remember_stop;
}

struct StopObjects {
  std::mutex mutex;
  int alive = 0;
};

StopObjects& stop_objects() {
  static auto* const one = new StopObjects;  // Never destroyed: an object may outlive main().
  return *one;
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(stop_objects().mutex);
  if (stop_objects().alive++ > 0) return;
  first_stop = 0;
  stop_owner = ::getpid();
  stop_parent = ::getppid();
  for (const int signal : kStops) {
    struct sigaction present{};
    ::sigaction(signal, nullptr, &present);
    if (!is_default_of(present)) continue;
    struct sigaction action{};
    action.sa_sigaction = remember_stop;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(stop_objects().mutex);
  if (--stop_objects().alive > 0) return;
  for (const int signal : kStops) {
    struct sigaction present{};
    ::sigaction(signal, nullptr, &present);
    if (!is_remembered(present)) continue;
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
}

int StopSignals::received() {
  return first_stop;
}

bool StopSignals::catches(int signal) {
  struct sigaction present{};
  ::sigaction(signal, nullptr, &present);
  return is_remembered(present);
}

namespace detail {

double weight_of_signal(int signal, int ranks) {
  double weight = 1;
  for (const int one : kStops) {
    if (one == signal) return weight;
    weight *= ranks + 1;
  }
  return 0;
}

int signal_of_weights(double sum, int ranks) {
  int found = 0;
  for (const int one : kStops)
    if (sum >= weight_of_signal(one, ranks)) found = one;
  return found;
}

}  // namespace detail
}  // namespace accelerate
