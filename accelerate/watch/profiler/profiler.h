// Profiles the operators of a part of the loop. The result is a trace, which Perfetto
// (https://ui.perfetto.dev) and chrome://tracing open, and a table. LibTorch's Kineto records it.
//
//   {
//     auto profiler = accelerator.profile({.record_shapes = true, .output_trace_dir = "traces"});
//     for (auto& batch : loader) {
//       …
//       profiler.step();
//     }
//   }  // Writes traces/profile_0.json, one file per rank.
//
// With a schedule only some steps are recorded; each cycle of the schedule gives a trace. Source:
// torch.profiler, and ProfileKwargs of Hugging Face Accelerate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/watch/profiler/operator_stats.h"

namespace accelerate {

class ProfileTrace;

enum class ProfilerActivity { cpu, cuda };

/// Which steps are recorded. After `skip_first` steps come cycles: `wait` steps without recording,
/// `warmup` steps whose results are dropped, and `active` steps that are recorded.
struct ProfileSchedule {
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 1;
  std::int64_t repeat = 0;  ///< Number of cycles; 0: until the profiler ends.
  std::int64_t skip_first = 0;
  bool skip_first_wait = false;  ///< The first cycle begins with its warmup.
};

enum class ProfilerAction { none, warmup, record, record_and_save };

/// Returns what is done in step `step`, counted from 0. Throws UsageError for a negative number, or
/// if no step is active.
[[nodiscard]] ProfilerAction action_at(const ProfileSchedule& schedule, std::int64_t step);

struct ProfileKwargs {
  /// Default: cpu, and cuda if LibTorch has a GPU.
  std::optional<std::vector<ProfilerActivity>> activities = {};
  /// Default: everything from begin to end is recorded.
  std::optional<ProfileSchedule> schedule_option = {};
  /// Called with each trace, after the trace's file was written.
  std::function<void(ProfileTrace&)> on_trace_ready = {};
  bool record_shapes = false;   ///< Shapes of the operators' inputs.
  bool profile_memory = false;  ///< Memory that operators take and give back.
  bool with_stack = false;      ///< Call stacks; LibTorch has them for TorchScript only.
  bool with_flops = false;      ///< Estimated for matrix products, convolutions, add and mul.
  bool with_modules = false;    ///< The hierarchy of modules; for TorchScript only.
  /// Where each rank writes profile_<rank>.json, and profile_<rank>.<n>.json for the n-th further
  /// cycle of a schedule. Made if it is missing. Default: nothing is written.
  std::optional<std::filesystem::path> output_trace_dir = {};
};

/// One recorded cycle. Belongs to its Profiler.
class ProfileTrace {
 public:
  struct Impl;
  explicit ProfileTrace(std::unique_ptr<Impl> impl);
  ~ProfileTrace();
  ProfileTrace(ProfileTrace&&) noexcept;
  ProfileTrace& operator=(ProfileTrace&&) noexcept;

  /// The number of the cycle, from 0, and of the step with which it ended.
  [[nodiscard]] std::int64_t cycle() const;
  [[nodiscard]] std::int64_t step() const;

  /// Writes the trace as Chrome's JSON; the file is complete or absent. Throws Error if it cannot
  /// be written.
  void export_chrome_trace(const std::filesystem::path& file);

  /// Returns times combined by operator, or by operator and shapes.
  [[nodiscard]] std::vector<OperatorStats> key_averages(bool group_by_input_shape = false) const;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Records from its construction to its end. Only one may exist in a process. It records the
/// operators of the thread that made it, and of the backward passes that this thread starts.
class [[nodiscard]] Profiler {
 public:
  /// Throws UsageError if a profiler is already running, the schedule is not valid, or cuda is
  /// asked for without a GPU. Throws Error if output_trace_dir cannot be made or written to.
  explicit Profiler(ProfileKwargs kwargs = {},
                    std::shared_ptr<Communicator> communicator = single_communicator());
  /// Calls stop(). If an exception ends the scope, writes the trace without waiting for the other
  /// ranks, and logs failures.
  ~Profiler() noexcept(false);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends the step and begins what the schedule wants next. Local. Throws Error if the step ended a
  /// trace that cannot be written, and what on_trace_ready throws; the schedule continues.
  void step();

  /// Ends the recording, and writes and hands out the trace. With output_trace_dir waits for all
  /// ranks [collective]. A second call does nothing. Throws as step(), after all ranks have met.
  void stop();

  /// The last finished trace. Throws UsageError if there is none yet.
  [[nodiscard]] ProfileTrace& trace() const;
  /// Returns key_averages() of the last finished trace.
  [[nodiscard]] std::vector<OperatorStats> key_averages(bool group_by_input_shape = false) const {
    return trace().key_averages(group_by_input_shape);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
