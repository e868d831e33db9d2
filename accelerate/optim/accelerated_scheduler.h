// A schedule that advances in step with the optimizers and the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/lr_scheduler.h"

namespace torch::optim {

// Adapts LibTorch's schedules to ours, so that they can be prepared. They do not tell which
// optimizer they belong to, so get_last_lr() returns the rates of all optimizers given here.
class LRScheduler;
class ReduceLROnPlateauScheduler;
}  // namespace torch::optim

namespace accelerate::detail {

/// Returns the rates of the optimizers that a schedule may belong to.
using RatesOf = std::function<std::vector<double>()>;

/// Adapts a schedule whose state is its number of steps.
[[nodiscard]] std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::LRScheduler> scheduler, RatesOf rates);

/// Adapts a schedule whose state cannot be read: state_dict() throws a UsageError that names our
/// ReduceLROnPlateau.
[[nodiscard]] std::shared_ptr<LRScheduler> adapt(
    std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler> scheduler, RatesOf rates);

}  // namespace accelerate::detail

namespace torch::optim {
class LRScheduler;
class ReduceLROnPlateauScheduler;
}  // namespace torch::optim

namespace accelerate {

/// How far one training step takes the schedule.
enum class SchedulerStep {
  /// As many steps as there are ranks: right for a schedule that is planned in batches of the
  /// unprepared loader. Upstream's way.
  per_process,
  /// One step: right for a schedule that is planned in steps of the optimizer.
  once,
};

/// Prepared optimizers. An optimizer drops out when its last handle is gone.
using PreparedOptimizers = std::vector<std::weak_ptr<AcceleratedOptimizer::Core>>;

/// What a prepared schedule depends on. Filled by the Accelerator.
struct SchedulerContext {
  std::shared_ptr<GradientState> gradient_state;
  std::shared_ptr<Communicator> communicator;
  /// May grow: a schedule may be prepared before its optimizer.
  std::shared_ptr<const PreparedOptimizers> optimizers;
  bool step_with_optimizer = true;  ///< If false, every step() counts, once.
  bool split_batches = false;       ///< Loaders divide batches: a step counts once.
  /// Default: per_process; on several ranks a warning, once, says so.
  std::optional<SchedulerStep> scheduler_step = std::nullopt;
};

/// What prepare() makes of a schedule: a handle on the user's schedule. Copies share everything. It
/// follows the prepared optimizer that the schedule was made for or, if that is not known, all
/// prepared optimizers.
class AcceleratedScheduler {
 public:
  struct Core;
  /// A schedule of ours, of yours, or of LibTorch's two kinds.
  using Given =
      std::variant<std::shared_ptr<LRScheduler>, std::shared_ptr<torch::optim::LRScheduler>,
                   std::shared_ptr<torch::optim::ReduceLROnPlateauScheduler>>;

  AcceleratedScheduler(Given scheduler, SchedulerContext context);
  explicit AcceleratedScheduler(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  /// Advances the schedule if the optimizer stepped: not while gradients only accumulate, and not
  /// if the optimizer's step was skipped. SchedulerStep says how far. With the accumulation
  /// plugin's adjust_scheduler, the number is multiplied by the micro-batches of the window, for
  /// schedules planned in micro-batches. A schedule with an end stays there. Local. Throws
  /// UsageError if the schedule needs a metric.
  void step();
  /// As step(), for a schedule that watches a metric; it advances by one step. Ranks that pass
  /// different metrics all use the mean, with a warning: otherwise their rates, and then their
  /// weights, would differ. [collective]
  void step(double metric);

  /// The rates that were set last, one per parameter group.
  [[nodiscard]] std::vector<double> get_last_lr() const;
  /// The schedule's steps since its start, as many as step() has made: Python's `last_epoch`.
  [[nodiscard]] std::int64_t last_epoch() const;
  /// The state of the user's schedule.
  [[nodiscard]] SchedulerState state_dict() const;
  void load_state_dict(const SchedulerState& state);
  /// The user's schedule. A LibTorch schedule is behind an adapter.
  [[nodiscard]] LRScheduler& scheduler() const;
  [[nodiscard]] const std::shared_ptr<Core>& core() const { return core_; }
  /// Whether this was made from the object that `scheduler` holds.
  [[nodiscard]] bool is_of(const Given& scheduler) const;

 private:
  std::shared_ptr<Core> core_;
};

namespace detail {

/// Returns a pointer that does not own `object`.
template <typename T>
[[nodiscard]] std::shared_ptr<T> without_owner(T& object) {
  return std::shared_ptr<T>(std::shared_ptr<void>(), &object);
}

}  // namespace detail
}  // namespace accelerate
