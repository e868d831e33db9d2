#include "accelerate/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

constexpr std::array kSignals = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

bool ignored(int signal) {
  struct sigaction action{};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

// Signals that the caller was told to ignore (nohup, a shell's background jobs) stay ignored.
sigset_t wanted() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) {
    if (!ignored(signal)) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

SignalScope::SignalScope() {
  const sigset_t set = wanted();
  pthread_sigmask(SIG_BLOCK, &set, &mask_before_);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
  struct sigaction keep{};
  keep.sa_handler = SIG_DFL;  // if ignored, the kernel would discard how a child ended
  sigaction(SIGCHLD, &keep, &child_before_);
  fd_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) {
    const std::string why = std::strerror(errno);
    sigaction(SIGCHLD, &child_before_, nullptr);
    sigaction(SIGPIPE, &pipe_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    throw LaunchError("cannot watch for signals: " + why);
  }
}

SignalScope::~SignalScope() {
  (void)take();  // a third Ctrl-C must not kill us between here and the report
  sigaction(SIGCHLD, &child_before_, nullptr);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::vector<int> SignalScope::take() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

void stop_like_ctrl_z() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  sigset_t before;
  pthread_sigmask(SIG_UNBLOCK, &stop, &before);
  // SIGTSTP and not SIGSTOP: the kernel ignores SIGTSTP where no shell could continue us.
  raise(SIGTSTP);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool asks_to_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace accelerate::detail
