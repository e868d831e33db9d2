// A progress bar for reading or writing large files.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "accelerate/base/progress_bar.h"

namespace accelerate {

struct ByteProgressOptions {
  std::string description;                ///< In front of the bar.
  std::uint64_t total_bytes = 0;          ///< There are.
  std::chrono::milliseconds delay{2000};  ///< What is through by then shows nothing.
  int fd = 2;                             ///< Where to; standard error.
};

/// Shows MiB done, of how many, and the rate; on the local main process only, on a terminal only,
/// and only when it takes longer than the delay. It stands below other bars, and leaves nothing
/// behind. Local. Threads: one at a time.
class ByteProgress {
 public:
  explicit ByteProgress(ByteProgressOptions options);

  /// `bytes` more are done.
  void operator()(std::uint64_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  ByteProgressOptions options_;
  bool shown_;
  Clock::time_point due_;
  std::uint64_t done_bytes_ = 0;
  std::unique_ptr<ProgressBar> bar_;  // Once it is due.
};

}  // namespace accelerate
