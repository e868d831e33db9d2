#include "accelerate/launch/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_error.h"

namespace accelerate::detail {
namespace {

// Everything that execve needs, laid out before the fork. Between fork and exec nothing may
// allocate, because another thread may have held the allocator's lock.
struct Image {
  std::vector<std::string> assignments;
  std::vector<char*> argv;
  std::vector<char*> envp;
};

Image image_of(const ChildOptions& options) {
  Image image;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view assignment(*entry);
    const std::string name(assignment.substr(0, assignment.find('=')));
    if (!options.environment.contains(name)) image.assignments.emplace_back(assignment);
  }
  for (const auto& [name, value] : options.environment) {
    image.assignments.push_back(name + "=" + value);
  }
  for (auto& assignment : image.assignments) image.envp.push_back(assignment.data());
  image.envp.push_back(nullptr);
  for (const auto& word : *options.argv) image.argv.push_back(const_cast<char*>(word.c_str()));
  image.argv.push_back(nullptr);
  return image;
}

void read_nothing() {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
}

// Takes away the parent's handlers. A handler that ran here would swallow a signal meant for the rank.
void drop_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
}

// Runs in a copy of a process without other threads, where all functions may be called.
[[noreturn]] void run_body(const ChildOptions& options, int failure) {
  close(failure);  // Executing a program closes it too.
  for (const int fd : options.closed_by_body) close(fd);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  _exit(options.body());
}

// Runs in the new process; async-signal-safe throughout.
[[noreturn]] void become(const Image& image, const ChildOptions& options, pid_t parent,
                         int failure) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);  // the parent died before prctl took effect
  if (!options.reads_input) read_nothing();
  if (options.out >= 0) dup2(options.out, STDOUT_FILENO);
  if (options.err >= 0) dup2(options.err, STDERR_FILENO);
  if (options.binding && options.binding->apply()) options.binding->prefer_memory();
  sigaction(SIGPIPE, &options.on_broken_pipe, nullptr);
  drop_handlers();  // while signals are still blocked
  sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  if (options.body) run_body(options, failure);
  execve(image.argv[0], image.argv.data(), image.envp.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failure, &error, sizeof error);
  _exit(127);
}

}  // namespace

Child start_child(const ChildOptions& options) {
  const Image image = image_of(options);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw LaunchError(std::string("cannot open a pipe: ") + std::strerror(errno) +
                          ". Is the limit on open files (ulimit -n) too low?",
                      detail::name_of_errno(errno));
  }
  Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    throw LaunchError(std::string("cannot start another process: ") + std::strerror(errno) +
                      ". Fewer ranks, or a higher limit (ulimit -u, ulimit -v), would help.");
  }
  if (pid == 0) become(image, options, parent, write_end.get());
  return {pid, std::move(read_end)};
}

int exec_error(Child& child) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(child.exec_failure.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  child.exec_failure.close();
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace accelerate::detail
