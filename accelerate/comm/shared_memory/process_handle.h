// A process of this host, seen from another one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// Tells whether a process has ended, by a descriptor for it (pidfd), which stays true when its
/// number is given to another; before Linux 5.3, or where a sandbox refuses that, by its number and
/// the time at which it began. A process that has ended and was not waited for counts as ended.
class ProcessHandle {
 public:
  /// This process. Throws CommError when there is no descriptor left for it (RLIMIT_NOFILE).
  [[nodiscard]] static ProcessHandle self();
  /// A process that introduced itself by `pidfd`, or without one by `pid`, its number in our
  /// process namespace.
  ProcessHandle(Descriptor pidfd, pid_t pid);

  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  /// 0 when it lives in a process namespace that we do not see.
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Cost: a system call; none for this process.
  [[nodiscard]] bool is_alive() const noexcept;

  /// "process 1234", "process 1234, which is stopped", "process 1234, which has died".
  [[nodiscard]] std::string describe() const;

 private:
  Descriptor pidfd_;
  pid_t pid_ = 0;
  std::string began_;  // as the kernel counts; only without a pidfd
};

/// Identifies this start of this machine's kernel; "" when the kernel does not say.
[[nodiscard]] std::string boot_id();

/// Identifies the process namespace that this process lives in; 0 when the kernel does not say.
[[nodiscard]] std::uint64_t process_namespace();

}  // namespace accelerate::detail
