// Learning-rate schedules: the base class of the library's schedules and of yours.
// docs/schedules.md shows them all.
//
//   auto schedule = get_scheduler("linear", adamw, {.num_warmup_steps = 100,
//                                                   .num_training_steps = 1000});
//   StepLR by_hand(adamw, 30);
//
// A schedule writes the rates into the optimizer's parameter groups when it is made and in every
// step(). It holds a reference to the optimizer, which must outlive it. Like the optimizer, it is
// not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include "accelerate/optim/schedules/initial_rates.h"
#include "accelerate/optim/schedules/scheduler_state.h"

namespace accelerate {

/// To write a schedule, derive from this class, compute the rates in get_lr(), and name the fields
/// in visit_state(). Call start() as the last statement of the constructor:
///
///   class HalfEvery final : public LRScheduler {
///    public:
///     HalfEvery(torch::optim::Optimizer& optimizer, std::int64_t steps)
///         : LRScheduler(optimizer), steps_(steps) { start(); }
///    private:
///     std::vector<double> get_lr() override {
///       auto rates = base_lrs();
///       for (double& rate : rates) rate *= std::pow(0.5, last_epoch() / steps_);
///       return rates;
///     }
///     std::int64_t steps_;
///   };
///
/// Source of the semantics: torch/optim/lr_scheduler.py.
class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  /// Advances by one step and sets the rates. Throws UsageError if the schedule needs a metric, is
  /// at its end (total_steps), or if groups were added to the optimizer.
  virtual void step();
  /// Advances by one step with the value that the schedule watches. Throws UsageError for schedules
  /// that watch none.
  virtual void step(double metric);
  /// Whether the schedule must be stepped by step(metric).
  [[nodiscard]] virtual bool needs_metric() const { return false; }
  /// The number of steps after which another step is an error; nullopt if there is no end.
  [[nodiscard]] virtual std::optional<std::int64_t> total_steps() const { return std::nullopt; }

  /// The rates that the schedule set last, one per parameter group.
  [[nodiscard]] virtual std::vector<double> get_last_lr() const { return last_lrs_; }
  /// Steps since the start.
  [[nodiscard]] std::int64_t last_epoch() const { return last_epoch_; }
  /// The optimizer whose rates are set; null if the schedule does not tell.
  [[nodiscard]] torch::optim::Optimizer* optimizer() const { return optimizer_; }

  /// Returns everything that decides the steps to come, except functions and the optimizer's rates.
  [[nodiscard]] virtual SchedulerState state_dict() const;
  /// Continues where the schedule that wrote `state` was, with the constants of that schedule.
  /// `state` may come from PyTorch. Load the optimizer's state as well: the rates are not changed
  /// here. Throws CheckpointError, and changes nothing then.
  virtual void load_state_dict(const SchedulerState& state);
  /// Throws what load_state_dict(state) would, and changes nothing. Override it if your schedule
  /// refuses more, so that it refuses before anything is loaded.
  virtual void check_state_dict(const SchedulerState& state) const;

 protected:
  explicit LRScheduler(torch::optim::Optimizer& optimizer);
  /// For a schedule that continues from `rates`, the present rates, and does not use the rates
  /// before any schedule.
  LRScheduler(torch::optim::Optimizer& optimizer, std::vector<double> rates);
  /// For a schedule that does not know its optimizer: it must override step() and get_last_lr().
  LRScheduler() : last_epoch_(0), step_count_(1) {}

  /// Sets the rates of step 0. Call it at the end of a constructor, where get_lr() can be called.
  virtual void start();

  /// Returns the rates of step last_epoch(), one per parameter group. Compute them from base_lrs(),
  /// or from current_lrs(), which keeps rates that were set by hand.
  [[nodiscard]] virtual std::vector<double> get_lr() = 0;
  /// Returns the same rates from base_lrs() alone. A SequentialLR uses it when it reaches this
  /// schedule.
  [[nodiscard]] virtual std::vector<double> closed_form_lr() { return get_lr(); }
  /// Names the fields of the state.
  virtual void visit_state(StateVisitor& field);
  /// Visits the fields that record progress.
  void visit_progress(StateVisitor& field);

  /// The optimizer's rates before any schedule.
  [[nodiscard]] const std::vector<double>& base_lrs() const { return base_lrs_; }
  /// The optimizer's rates now.
  [[nodiscard]] std::vector<double> current_lrs() const { return detail::group_rates(*optimizer_); }
  /// Returns current_lrs(), each times `factor`.
  [[nodiscard]] std::vector<double> current_lrs_times(double factor) const;
  /// Adds one to last_epoch(), for schedules that override step().
  void count_step() {
    ++last_epoch_;
    ++step_count_;
  }
  /// Writes `rates` into the groups.
  void set_lrs(const std::vector<double>& rates);
  /// Makes `rates` the initial rates of this and later schedules of the optimizer.
  void set_base_lrs(const std::vector<double>& rates);

 private:
  friend class SequentialLR;
  friend class MetricScheduler;

  virtual void rewind() { last_epoch_ = -1; }  // Goes back to before step 0.
  virtual void restart();                      // Goes to step 0 by closed_form_lr().

  torch::optim::Optimizer* optimizer_ = nullptr;
  std::shared_ptr<detail::InitialRates> rates_;  // Null if the initial rates are not used.
  std::vector<double> base_lrs_;
  std::vector<double> last_lrs_;
  std::int64_t last_epoch_ = -1;
  std::int64_t step_count_ = 0;  // Counts the start, too: last_epoch + 1 unless steps jumped.
};

/// What get_scheduler makes: a shared_ptr to a schedule, with the schedule's own methods by a dot
/// too. So a loop reads alike, `lr_scheduler.step()`, whether the schedule is prepared or not. One
/// that is not prepared advances in every step(), as in Python.
class SharedScheduler : public std::shared_ptr<LRScheduler> {
 public:
  using std::shared_ptr<LRScheduler>::shared_ptr;
  SharedScheduler(std::shared_ptr<LRScheduler> schedule)  // NOLINT: is one
      : shared_ptr(std::move(schedule)) {}

  void step() const { get()->step(); }
  void step(double metric) const { get()->step(metric); }
  [[nodiscard]] std::vector<double> get_last_lr() const { return get()->get_last_lr(); }
  [[nodiscard]] std::int64_t last_epoch() const { return get()->last_epoch(); }
  [[nodiscard]] SchedulerState state_dict() const { return get()->state_dict(); }
  void load_state_dict(const SchedulerState& state) const { get()->load_state_dict(state); }
};

}  // namespace accelerate
