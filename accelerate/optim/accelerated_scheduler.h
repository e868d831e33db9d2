// A schedule that keeps step with the optimizers and with the group of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/lr_scheduler.h"
#include "accelerate/state/gradient_state.h"

namespace torch::optim {
class LRScheduler;
class ReduceLROnPlateauScheduler;
}  // namespace torch::optim

namespace accelerate {

/// How far one step of the training takes the schedule.
enum class SchedulerStep {
  /// As many steps as there are ranks: right for schedules that are planned in batches of the
  /// loader as it was before prepare(). Upstream's way.
  per_process,
  /// One: right for schedules that are planned in steps of the optimizer.
  once,
};

/// Optimizers that were prepared; those whose handles are all gone drop out.
using PreparedOptimizers = std::vector<std::weak_ptr<AcceleratedOptimizer::Core>>;

/// What a prepared schedule goes by. Filled by the Accelerator.
struct SchedulerContext {
  std::shared_ptr<GradientState> gradient_state;
  std::shared_ptr<Communicator> communicator;
  /// May grow: a schedule may be prepared before its optimizer.
  std::shared_ptr<const PreparedOptimizers> optimizers;
  bool step_with_optimizer = true;  ///< Else every step() counts, once.
  bool split_batches = false;       ///< Loaders divide batches: a step is one step.
  /// Default: per_process, and on several ranks a warning, once, that says so.
  std::optional<SchedulerStep> scheduler_step = std::nullopt;
};

/// What prepare() makes of a schedule: a handle on the user's own; copies share everything. It
/// belongs to the prepared optimizer that the schedule was made for, or, where that is not known,
/// to all.
class AcceleratedScheduler {
 public:
  struct Core;
  /// A schedule of ours, of yours, or one of LibTorch's two kinds.
  using Given =
      std::variant<std::shared_ptr<LRScheduler>, std::shared_ptr<torch::optim::LRScheduler>,
                   std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler>>;

  AcceleratedScheduler(Given scheduler, SchedulerContext context);
  explicit AcceleratedScheduler(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  /// Takes the schedule on, if the optimizer stepped: not while gradients only accumulate, not
  /// when the optimizer's step was skipped. How far says SchedulerStep; with the accumulation
  /// plugin's adjust_scheduler also times the micro-batches of the window, for schedules planned in
  /// those. A schedule with an end stays there. Local. Throws UsageError when the schedule needs a
  /// metric.
  void step();
  /// The same for a schedule that watches a metric, which moves on by one in any case. Ranks that
  /// bring different metrics all go by the mean, with a warning: else their rates, and then their
  /// weights, would part. [collective]
  void step(double metric);

  /// The rates set last, one for each parameter group.
  [[nodiscard]] std::vector<double> get_last_lr() const;
  /// The schedule's own.
  [[nodiscard]] SchedulerState state_dict() const;
  void load_state_dict(const SchedulerState& state);
  /// The user's schedule. One of LibTorch's own is behind an adapter.
  [[nodiscard]] LRScheduler& scheduler() const;
  [[nodiscard]] const std::shared_ptr<Core>& core() const { return core_; }
  /// Whether this was made of the object that `scheduler` holds.
  [[nodiscard]] bool is_of(const Given& scheduler) const;

 private:
  std::shared_ptr<Core> core_;
};

namespace detail {

/// A pointer to what somebody else owns.
template <typename T>
[[nodiscard]] std::shared_ptr<T> without_owner(T& object) {
  return std::shared_ptr<T>(std::shared_ptr<void>(), &object);
}

}  // namespace detail
}  // namespace accelerate
