// Shows what ranks write into files. A process reads the files as they grow, and writes their lines
// to a terminal. So a slow terminal stops neither the ranks, which write to files, nor the launcher.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// A file that grows, and what begins each of its lines on the terminal.
struct FollowedFile {
  std::string path;
  std::string prefix;
};

class Tee {
 public:
  /// Starts the process, which writes the lines of `files` to a copy of descriptor `to`. The files
  /// exist. A line ends with a line feed, a carriage return or both, and is shown with a line feed
  /// when it has ended. A line of more than 256 KiB is shown in pieces. Throws LaunchError if no
  /// process can be started.
  Tee(int to, const std::vector<FollowedFile>& files);
  /// Ends the process, even if it has not shown everything.
  ~Tee();
  Tee(const Tee&) = delete;
  Tee& operator=(const Tee&) = delete;

  /// Says that nothing will be written any more. The process shows the rest and ends.
  void finish();
  /// The launcher's end of the connection, for copies of this process to close. Becomes readable
  /// when the process has ended.
  [[nodiscard]] int fd() const { return connection_.get(); }

 private:
  Descriptor connection_;
  pid_t pid_ = -1;
};

}  // namespace accelerate::detail
