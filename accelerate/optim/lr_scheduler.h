// Learning-rate schedules: the base class of the library's own and of yours. docs/schedules.md
// shows them all.
//
//   auto schedule = get_scheduler("linear", adamw, {.num_warmup_steps = 100,
//                                                   .num_training_steps = 1000});
//   StepLR by_hand(adamw, 30);
//
// A schedule writes the rates into the optimizer's parameter groups when it is made and in every
// step(). It holds a reference to the optimizer, which must outlive it. Not thread-safe, as the
// optimizer is not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/optim/optimizer.h>

#include "accelerate/optim/schedules/initial_rates.h"
#include "accelerate/optim/schedules/scheduler_state.h"

namespace accelerate {

/// A schedule of your own derives from this, computes the rates in get_lr(), names its fields in
/// visit_state() and calls start() as the last statement of its constructor:
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

  /// Goes on by one step and sets the rates. Throws UsageError when the schedule needs a metric,
  /// when it is at its end (total_steps), when groups were added to the optimizer.
  virtual void step();
  /// Goes on by one step with the value that the schedule watches. Throws UsageError for schedules
  /// that watch none.
  virtual void step(double metric);
  /// Whether it is step(metric) that this schedule wants.
  [[nodiscard]] virtual bool needs_metric() const { return false; }
  /// Steps after which another one is an error; nullopt: there is no end.
  [[nodiscard]] virtual std::optional<std::int64_t> total_steps() const { return std::nullopt; }

  /// The rates that the schedule set last, one for each parameter group.
  [[nodiscard]] virtual std::vector<double> get_last_lr() const { return last_lrs_; }
  /// Steps since the start.
  [[nodiscard]] std::int64_t last_epoch() const { return last_epoch_; }
  /// The optimizer whose rates are set; nullptr when the schedule does not tell.
  [[nodiscard]] torch::optim::Optimizer* optimizer() const { return optimizer_; }

  /// Everything that decides the steps to come, but functions and the optimizer's own rates.
  [[nodiscard]] virtual SchedulerState state_dict() const;
  /// Goes on where the schedule that wrote `state` was, with that one's constants; PyTorch's states
  /// do too. Load the optimizer's state as well: the rates are not touched. Throws
  /// CheckpointError and then changes nothing.
  virtual void load_state_dict(const SchedulerState& state);
  /// Throws what load_state_dict(state) would, and changes nothing. A schedule of your own that
  /// refuses more than this does says so here, where nothing has been loaded yet.
  virtual void check_state_dict(const SchedulerState& state) const;

 protected:
  explicit LRScheduler(torch::optim::Optimizer& optimizer);
  /// For a schedule that goes on from `rates`, the present ones, and has no use for those before
  /// any schedule.
  LRScheduler(torch::optim::Optimizer& optimizer, std::vector<double> rates);
  /// For a schedule that does not know its optimizer: it overrides step() and get_last_lr().
  LRScheduler() : last_epoch_(0), step_count_(1) {}

  /// Sets the rates of step 0. Belongs at the end of a constructor, where get_lr() can be called.
  virtual void start();

  /// The rates of step last_epoch(), one for each parameter group: a function of base_lrs(), or
  /// of current_lrs(), which keeps what was set by hand in between.
  [[nodiscard]] virtual std::vector<double> get_lr() = 0;
  /// The same from base_lrs() alone: a SequentialLR that comes to this schedule begins with it.
  [[nodiscard]] virtual std::vector<double> closed_form_lr() { return get_lr(); }
  /// Names the fields of the state.
  virtual void visit_state(StateVisitor& field);
  /// Those of where it is.
  void visit_progress(StateVisitor& field);

  /// The optimizer's rates before any schedule.
  [[nodiscard]] const std::vector<double>& base_lrs() const { return base_lrs_; }
  /// The optimizer's rates now.
  [[nodiscard]] std::vector<double> current_lrs() const { return detail::group_rates(*optimizer_); }
  /// current_lrs(), each times `factor`.
  [[nodiscard]] std::vector<double> current_lrs_times(double factor) const;
  /// For schedules with a step() of their own: takes last_epoch() on by one.
  void count_step() {
    ++last_epoch_;
    ++step_count_;
  }
  /// Writes `rates` into the groups.
  void set_lrs(const std::vector<double>& rates);
  /// Makes `rates` those that this and later schedules of the optimizer start from.
  void set_base_lrs(const std::vector<double>& rates);

 private:
  friend class SequentialLR;
  friend class StateVisitor;
  friend class MetricScheduler;

  virtual void rewind() { last_epoch_ = -1; }  // To before step 0.
  virtual void restart();                      // Step 0 by the closed form.

  torch::optim::Optimizer* optimizer_ = nullptr;
  std::shared_ptr<detail::InitialRates> rates_;  // nullptr: they do not count.
  std::vector<double> base_lrs_;
  std::vector<double> last_lrs_;
  std::int64_t last_epoch_ = -1;
  std::int64_t step_count_ = 0;  // With the start: one more than last_epoch, if nothing jumped.
};

}  // namespace accelerate
