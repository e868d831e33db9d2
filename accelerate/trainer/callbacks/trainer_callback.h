// What runs beside a training: the interface of callbacks, ours and yours. Names, events and their
// order are those of Transformers' TrainerCallback.
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

#include "accelerate/trainer/trainer_state.h"

namespace accelerate {
class Accelerator;
class AcceleratedOptimizer;
class AcceleratedScheduler;
class TrainableModel;
struct TrainingArguments;

/// What is there when an event happens. Pointers are null where it happens before they are made.
struct TrainerEvent {
  const TrainingArguments& args;  ///< Resolved.
  TrainerState& state;
  TrainerControl& control;
  Accelerator& accelerator;
  const TrainableModel& model;
  AcceleratedOptimizer* optimizer = nullptr;
  AcceleratedScheduler* lr_scheduler = nullptr;
};

/// Every event reaches every callback on every rank, in the order in which callbacks were given,
/// behind the built-in ones. Ranks must come to the same decisions: what one rank alone asks for
/// leaves the others waiting. What a callback throws ends the training.
class TrainerCallback {
 public:
  virtual ~TrainerCallback() = default;

  /// By which pop_callback() and trainer_state.json know it.
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
  /// `folder`: the checkpoint, complete.
  virtual void on_save(TrainerEvent& event, const std::filesystem::path& folder) { (void)event, (void)folder; }
  virtual void on_log(TrainerEvent& event, const LogValues& logs) { (void)event, (void)logs; }
  /// After each batch of an evaluation, of which there are `batches`, if known.
  virtual void on_prediction_step(TrainerEvent& event, std::optional<std::size_t> batches) { (void)event, (void)batches; }
  virtual void on_push_begin(TrainerEvent& event) { (void)event; }
  // clang-format on

  /// What it needs to go on, as {"args": {…}, "attributes": {…}}; a null node: nothing. With
  /// restore_callback_states_from_checkpoint a resumed training hands it back.
  [[nodiscard]] virtual Node state() const { return {}; }
  virtual void load_state(const Node& state) { (void)state; }
};

}  // namespace accelerate
