// The interface of callbacks, built-in ones and yours, which are called while a training runs.
// Names, events and their order are as in Transformers' TrainerCallback.
//
//   struct StopAtLoss final : TrainerCallback {
//     void on_log(TrainerEvent& event, const LogValues& logs) override {
//       if (const double* loss = logs.find("loss"); loss && *loss < 0.1)
//         event.control.should_training_stop = true;
//     }
//   };
//   Trainer trainer({…, .callbacks = {std::make_shared<StopAtLoss>()}});
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/transformers/trainer/trainer_state.h"

namespace accelerate {
class Accelerator;
class AcceleratedOptimizer;
class AcceleratedScheduler;
class TrainableModel;
class ResolvedArguments;

/// What a callback can use when an event happens. A pointer is null if the event happens before its
/// object is made.
struct TrainerEvent {
  const ResolvedArguments& args;
  TrainerState& state;
  TrainerControl& control;
  Accelerator& accelerator;
  const TrainableModel& model;
  AcceleratedOptimizer* optimizer = nullptr;
  AcceleratedScheduler* lr_scheduler = nullptr;
};

/// Every event reaches every callback on every rank: the built-in callbacks first, then yours in
/// the order in which they were given. Ranks must come to the same decisions: if one rank alone
/// asks for something, the other ranks are left waiting. An exception from a callback ends the
/// training.
class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;

  /// The name under which pop_callback() and trainer_state.json know the callback.
  [[nodiscard]] virtual std::string name() const { return "TrainerCallback"; }

  // clang-format off
  virtual void on_init_end(TrainerEvent& event) { (void)event; }
  virtual void on_train_begin(TrainerEvent& event) { (void)event; }
  virtual void on_train_end(TrainerEvent& event) { (void)event; }
  virtual void on_epoch_begin(TrainerEvent& event) { (void)event; }
  virtual void on_epoch_end(TrainerEvent& event) { (void)event; }
  /// Before the first micro-batch of a step.
  virtual void on_step_begin(TrainerEvent& event) { (void)event; }
  /// After clipping, before the optimizer's step.
  virtual void on_pre_optimizer_step(TrainerEvent& event) { (void)event; }
  /// After the optimizer's step, before gradients are dropped.
  virtual void on_optimizer_step(TrainerEvent& event) { (void)event; }
  /// After a micro-batch that does not end a step.
  virtual void on_substep_end(TrainerEvent& event) { (void)event; }
  virtual void on_step_end(TrainerEvent& event) { (void)event; }
  virtual void on_evaluate(TrainerEvent& event, const LogValues& metrics) { (void)event, (void)metrics; }
  virtual void on_predict(TrainerEvent& event, const LogValues& metrics) { (void)event, (void)metrics; }
  /// `folder`: the complete checkpoint.
  virtual void on_save(TrainerEvent& event, const std::filesystem::path& folder) { (void)event, (void)folder; }
  virtual void on_log(TrainerEvent& event, const LogValues& logs) { (void)event, (void)logs; }
  /// After each batch of an evaluation. `batches`: how many batches it has, if known.
  virtual void on_prediction_step(TrainerEvent& event, std::optional<std::size_t> batches) { (void)event, (void)batches; }
  virtual void on_push_begin(TrainerEvent& event) { (void)event; }
  // clang-format on

  /// Returns what the callback needs to go on, as {"args": {…}, "attributes": {…}}; a null node for
  /// nothing. A resumed training hands it to load_state() before on_train_begin(). "args" is empty
  /// then, unless restore_callback_states_from_checkpoint is set.
  [[nodiscard]] virtual Node state() const { return {}; }
  virtual void load_state(const Node& state) { (void)state; }
};

}  // namespace accelerate
