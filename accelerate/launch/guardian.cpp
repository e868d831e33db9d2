#include "accelerate/launch/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

constexpr pid_t kGoHome = 0;

// Keeps only the pipe, as descriptor 0: a terminal, a log file or the reader of a shell pipeline
// must not wait for the guardian.
void keep_only(int pipe) {
  dup2(pipe, 0);
  close_range(1, ~0U, 0);
}

// Async-signal-safe: `groups` was allocated before the fork.
[[noreturn]] void stand_guard(int pipe, std::vector<pid_t>& groups) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "accelerate-grd");
  keep_only(pipe);
  std::size_t count = 0;
  pid_t word = 0;
  while (read(0, &word, sizeof word) == static_cast<ssize_t>(sizeof word)) {
    if (word == kGoHome) _exit(0);
    if (count < groups.size()) groups[count++] = word;
  }
  for (std::size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian(std::size_t groups) {
  std::vector<pid_t> room(groups);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw LaunchError(std::string("cannot open a pipe: ") + std::strerror(errno));
  }
  const Descriptor read_end(ends[0]);
  pipe_ = Descriptor(ends[1]);
  pid_ = fork();
  if (pid_ < 0) {
    throw LaunchError(std::string("cannot start another process: ") + std::strerror(errno));
  }
  if (pid_ == 0) stand_guard(read_end.get(), room);
}

Guardian::~Guardian() {
  send(kGoHome);
  pipe_.close();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::guard(pid_t leader) {
  send(leader);
}

// If the guardian was killed by hand, nobody reads the word. SIGPIPE is ignored meanwhile, so the
// failed write has no consequence.
void Guardian::send(pid_t word) {
  [[maybe_unused]] const ssize_t sent = write(pipe_.get(), &word, sizeof word);
}

}  // namespace accelerate::detail
