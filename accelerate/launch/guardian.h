// The last line against orphans. The kernel kills a rank when the launcher dies (PR_SET_PDEATHSIG),
// but not what the rank itself started. The guardian is a tiny process that does nothing but wait
// for the end of a pipe whose other end the launcher holds: when the launcher dies, even by
// SIGKILL, the pipe ends and the guardian kills every process group it was told of.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "accelerate/launch/child.h"

namespace accelerate::detail {

class Guardian {
 public:
  /// Starts it with room for `groups` process groups. Throws LaunchError when it cannot start.
  explicit Guardian(std::size_t groups);
  /// Sends it home without killing anyone, and waits for it.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// Its end of the pipe, for copies of this process to close.
  [[nodiscard]] int fd() const { return pipe_.get(); }
  /// From now on the group of `leader` does not outlive the calling process.
  void guard(pid_t leader);

 private:
  void send(pid_t word);

  FileDescriptor pipe_;
  pid_t pid_ = -1;
};

}  // namespace accelerate::detail
