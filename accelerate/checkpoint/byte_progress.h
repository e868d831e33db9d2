// A progress bar for reading or writing large files.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "accelerate/base/terminal/progress_bar.h"

namespace accelerate {

struct ByteProgressOptions {
  std::string description;                ///< In front of the bar.
  std::uint64_t total_bytes = 0;          ///< The amount of work.
  std::chrono::milliseconds delay{2000};  ///< A task that ends sooner shows nothing.
  int fd = 2;                             ///< Where to draw; standard error.
};

/// Shows the MiB done, the total and the rate. Appears on the local main process only, on a
/// terminal only, and only if the work takes longer than the delay. It stands below other bars, and
/// erases itself at the end. Local. Not thread-safe.
class ByteProgress {
 public:
  explicit ByteProgress(ByteProgressOptions options);

  /// Records that `bytes` more are done.
  void operator()(std::uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  ByteProgressOptions options_;
  bool shown_;
  Clock::time_point due_;
  std::uint64_t done_bytes_ = 0;
  std::unique_ptr<ProgressBar> bar_;  // Null before due_.
};

}  // namespace accelerate
