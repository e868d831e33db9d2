// Starting one process so that nothing of the launcher leaks into it and it cannot outlive the
// launcher.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/plan.h"

namespace accelerate::detail {

/// A file descriptor that is closed at the end of its scope; -1 for none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }

  [[nodiscard]] int get() const { return fd_; }
  void reset();

 private:
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  int fd_ = -1;
};

struct ChildOptions {
  const std::vector<std::string>* argv;  ///< argv[0] is the path executed.
  std::function<int()> body = {};        ///< Called instead of it; returns the exit code.
  std::vector<int> closed_by_body = {};  ///< Descriptors of the launcher's that no copy may keep.
  Environment environment;               ///< On top of the caller's.
  bool reads_input = false;              ///< Standard input is the caller's, else /dev/null.
  sigset_t signal_mask;                  ///< Mask the program starts with.
  struct sigaction on_broken_pipe;       ///< What SIGPIPE does in the program.
  /// Cores that it is bound to, so that every thread it will ever start is.
  std::optional<CpuBinding> binding = {};
};

/// A process on its way to becoming the program.
struct Child {
  pid_t pid = -1;
  FileDescriptor exec_failure;  ///< Yields the errno of a failed execve, nothing when it worked.
};

/// Forks a process that leads a session of its own (so its descendants can be ended as one group,
/// and it may still read and write the terminal: job control is a matter of the terminal's own
/// session), is killed by the kernel when the calling thread ends, and executes the program.
/// Returns before that is known to have worked. Throws LaunchError when there can be no further
/// process.
[[nodiscard]] Child start_child(const ChildOptions& options);

/// Waits until the program runs; the errno of execve otherwise, 0 when all is well. Cost: the time
/// of the exec.
[[nodiscard]] int exec_error(Child& child);

}  // namespace accelerate::detail
