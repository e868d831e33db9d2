// A process of this host, seen from another one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// Tells whether a process has ended, by a descriptor for it (pidfd). A pidfd stays right even if
/// another process gets the same process ID. Before Linux 5.3, or if a sandbox refuses pidfds, by
/// the process ID and the time at which the process began. A zombie counts as ended.
class ProcessHandle {
 public:
  /// Returns a handle for this process. Throws CommError when no descriptor is left
  /// (RLIMIT_NOFILE).
  [[nodiscard]] static ProcessHandle self();
  /// For a process that introduced itself by `pidfd`, or without a pidfd by `pid`, its ID in our
  /// process namespace.
  ProcessHandle(Descriptor pidfd, pid_t pid);

  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  /// The process ID; 0 if the process lives in a process namespace that we do not see.
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Whether the process has not ended. Cost: a system call; none for this process.
  [[nodiscard]] bool is_alive() const noexcept;

  /// Returns "process 1234", "process 1234, which is stopped" or "process 1234, which has died".
  [[nodiscard]] std::string describe() const;

 private:
  Descriptor pidfd_;
  pid_t pid_ = 0;
  std::string began_;  // start time in the kernel's clock ticks; only without a pidfd
};

/// While it lives, the calling thread believes to run on another machine, for tests. Scopes do not
/// nest.
class PretendedMachine {
 public:
  explicit PretendedMachine(std::string name);
  ~PretendedMachine();
  PretendedMachine(const PretendedMachine&) = delete;
  PretendedMachine& operator=(const PretendedMachine&) = delete;
};

/// Returns an identifier of this boot of this machine; "" when the kernel does not say.
[[nodiscard]] std::string boot_id();

/// Returns an identifier of this process's process namespace; 0 when the kernel does not say.
[[nodiscard]] std::uint64_t process_namespace();

}  // namespace accelerate::detail
