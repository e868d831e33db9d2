// The files of one attempt of a launch: what each rank writes, and what ended it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/launch/output/output_plan.h"
#include "accelerate/launch/output/tee.h"
#include "accelerate/launch/plan.h"
#include "accelerate/launch/signals.h"

namespace accelerate::detail {

class RankOutput {
 public:
  using Clock = std::chrono::steady_clock;

  /// Makes <folder>/attempt_<attempt>/<local rank> with the files that plan.output asks for, and
  /// starts the processes that show them. Throws LaunchError if that fails.
  explicit RankOutput(const LaunchPlan& plan);

  /// What takes the place of a rank's standard output and error; invalid where it keeps the
  /// launcher's. Throws LaunchError if a file cannot be opened.
  struct Streams {
    Descriptor out, err;
  };
  [[nodiscard]] Streams open_streams(std::size_t local_rank) const;

  /// The file in which the rank says what ended it; empty if there is none.
  [[nodiscard]] std::filesystem::path error_file(std::size_t local_rank) const;

  /// The launcher's descriptors, for copies of this process to close.
  [[nodiscard]] std::vector<int> descriptors() const;

  /// Returns when everything that the ranks wrote has been shown, when a signal asks the launcher
  /// to end, or at `limit`. All ranks have ended.
  void finish(SignalScope& signals, std::optional<Clock::time_point> limit);

 private:
  [[nodiscard]] std::filesystem::path folder_of(std::size_t local_rank) const;
  void make_files() const;
  void start_tee(int to, Destination RankStreams::* stream, const char* name);

  const OutputPlan& plan_;
  std::size_t ranks_;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<Tee>> tees_;
};

}  // namespace accelerate::detail
