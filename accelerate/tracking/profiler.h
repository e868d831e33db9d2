// Records what the operators of a piece of the loop take, as a trace that Perfetto
// (https://ui.perfetto.dev) and chrome://tracing open, and as a table. LibTorch's Kineto does the
// recording.
//
//   {
//     auto profiler = accelerator.profile({.record_shapes = true, .output_trace_dir = "traces"});
//     for (auto& batch : loader) { …; profiler.step(); }
//   }                                            // traces/profile_0.json, one file a rank
//
// With a schedule only some steps are recorded; each cycle of it gives a trace. Source:
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
#include "accelerate/tracking/operator_stats.h"

namespace accelerate {

class ProfileTrace;

enum class ProfilerActivity { cpu, cuda };

/// Which steps are recorded: after `skip_first` steps, cycles of `wait` steps without, `warmup`
/// steps with the recorder running but its results dropped, `active` steps that are recorded.
struct ProfileSchedule {
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 1;
  std::int64_t repeat = 0;  ///< Number of cycles; 0: until the profiler ends.
  std::int64_t skip_first = 0;
  bool skip_first_wait = false;  ///< The first cycle begins with its warmup.
};

enum class ProfilerAction { none, warmup, record, record_and_save };

/// What is done in step `step`, counted from 0. Throws UsageError: a negative number, or no active
/// step.
[[nodiscard]] ProfilerAction action_at(const ProfileSchedule& schedule, std::int64_t step);

struct ProfileKwargs {
  /// Default: cpu, and cuda where LibTorch has a GPU.
  std::optional<std::vector<ProfilerActivity>> activities = {};
  /// Default: everything from begin to end is recorded.
  std::optional<ProfileSchedule> schedule_option = {};
  /// Called with each trace, after its file was written.
  std::function<void(ProfileTrace&)> on_trace_ready = {};
  bool record_shapes = false;   ///< Of the operators' inputs.
  bool profile_memory = false;  ///< What operators take and give back.
  bool with_stack = false;      ///< Call stacks; LibTorch has them for TorchScript only.
  bool with_flops = false;      ///< Estimated for matrix products, convolutions, add and mul.
  bool with_modules = false;    ///< The hierarchy of modules; for TorchScript only.
  /// Where each rank writes profile_<rank>.json, and for the n-th further cycle of a schedule
  /// profile_<rank>.<n>.json. Made when it is missing. Default: nothing is written.
  std::optional<std::filesystem::path> output_trace_dir = {};
};

/// One recorded stretch. Belongs to its Profiler.
class ProfileTrace {
 public:
  struct Impl;
  explicit ProfileTrace(std::unique_ptr<Impl> impl);
  ~ProfileTrace();
  ProfileTrace(ProfileTrace&&) noexcept;
  ProfileTrace& operator=(ProfileTrace&&) noexcept;

  /// Number of the cycle, from 0, and of the step with which it ended.
  [[nodiscard]] std::int64_t cycle() const;
  [[nodiscard]] std::int64_t step() const;

  /// Writes the trace as Chrome's JSON; the file is complete or absent. Throws Error when it cannot
  /// be written.
  void export_chrome_trace(const std::filesystem::path& file);

  /// Times put together by operator, or by operator and shapes.
  [[nodiscard]] std::vector<OperatorStats> key_averages(bool group_by_input_shape = false) const;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Records from its construction to its end. One at a time in a process. It belongs to the thread
/// that made it: operators of that thread and of the backward passes it starts are recorded.
class [[nodiscard]] Profiler {
 public:
  /// Throws UsageError: a profiler is running already, a schedule that is none, cuda without a GPU.
  /// Throws Error: output_trace_dir cannot be made or written to.
  explicit Profiler(ProfileKwargs kwargs = {},
                    std::shared_ptr<Communicator> communicator = single_communicator());
  /// As stop(). Left by an exception, it writes the trace but does not wait for the other ranks,
  /// and logs what goes wrong.
  ~Profiler() noexcept(false);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// The step is over: what the schedule wants next begins. Local. Throws Error when the trace that
  /// the step ended cannot be written, and what on_trace_ready throws; the schedule goes on.
  void step();

  /// Ends the recording, writes and hands out the trace, and with output_trace_dir waits for all
  /// ranks [collective]. A second call does nothing. Throws as step(), after the others were met.
  void stop();

  /// The last finished trace. Throws UsageError before there is one.
  [[nodiscard]] ProfileTrace& trace() const;
  /// Of the last finished trace.
  [[nodiscard]] std::vector<OperatorStats> key_averages(bool group_by_input_shape = false) const {
    return trace().key_averages(group_by_input_shape);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
