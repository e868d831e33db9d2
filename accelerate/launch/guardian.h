// The last line against orphans. The kernel kills a rank when the launcher dies (PR_SET_PDEATHSIG),
// but not what the rank itself started. The guardian is a tiny process that only waits for the end
// of a pipe, whose other end the launcher holds. When the launcher dies, even by SIGKILL, the pipe
// ends. Then the guardian kills every process group that it was told of.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

class Guardian {
 public:
  /// Starts the guardian with room for `groups` process groups. Throws LaunchError when it cannot
  /// start.
  explicit Guardian(std::size_t groups);
  /// Ends the guardian without killing any group, and waits for it.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// The launcher's end of the pipe, for copies of this process to close.
  [[nodiscard]] int fd() const { return pipe_.get(); }
  /// Makes sure that the group of `leader` does not outlive the calling process.
  void guard(pid_t leader);

 private:
  void send(pid_t word);

  Descriptor pipe_;
  pid_t pid_ = -1;
};

}  // namespace accelerate::detail
