// What an Accelerator owns. Only the sources of the facade include this.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/accelerator/resolved_settings.h"
#include "accelerate/accelerator/settings_agreement.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/stop_signals.h"
#include "accelerate/checkpoint/checkpointing.h"
#include "accelerate/launch/config/resolved_deepspeed.h"
#include "accelerate/optim/clipping.h"
#include "accelerate/optim/listed_once.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/optim/precision/half_on_cpu.h"
#include "accelerate/parallel/gradients/item_count.h"
#include "accelerate/parallel/make_parallel.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

// Handles weights that have several names in a model, and that optimizers therefore list several
// times.

/// Makes optimizers list tied weights once, and warns about them by their names in a model. Model
/// and optimizer may be prepared in either order.
class TiedParameters {
 public:
  /// Makes `optimizer` list each of its parameters once. Throws as list_once().
  void list_once_in(torch::optim::Optimizer& optimizer);
  /// Warns about the tied weights that `model` has.
  void name_by(const ModuleView& model);
  /// Warns about the tied weights that no model has, by their places in the optimizer.
  void warn_of_rest();

 private:
  std::vector<ListedTwice> unnamed_;
};

}  // namespace accelerate::detail

namespace accelerate {

namespace detail {
/// Returns the model as a checkpoint sees it: whole, or the parts that this rank has.
[[nodiscard]] ModelPart model_part(const ModelCore& core, std::string stem);

/// Calls `write` on rank 0 with the planned file of a sharded model. Its tensors are fetched one by
/// one. `call` names the caller in messages. [collective]
void with_whole_model(const ModelCore& core, const char* call,
                      const std::function<void(const PlannedFile&)>& write);

/// If the model is sharded and a DivisibleModule, gives it the means to write itself whole.
void tell_divided(const std::shared_ptr<ModelCore>& core);
}  // namespace detail

struct OpenWindow;

struct Accelerator::Impl {
  using Models = std::vector<std::shared_ptr<detail::ModelCore>>;
  using Optimizers = std::vector<AcceleratedOptimizer>;

  Impl(const AcceleratorOptions& accelerator_options, const RankCalls& ranks);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Returns the live cores; forgets models that went out of scope.
  [[nodiscard]] Models live_models();

  /// Returns the live optimizers, in the same way.
  [[nodiscard]] Optimizers live_optimizers();

  /// Returns the live optimizers whose gradients must be unscaled before `parameters` are clipped.
  [[nodiscard]] Optimizers optimizers_of(const std::vector<at::Tensor>& parameters);
  /// Returns the live optimizers that hold one of `parameters`.
  [[nodiscard]] Optimizers holding(const std::vector<at::Tensor>& parameters);
  /// Returns the gradients that clipping `parameters` has to look at. First come the parameters
  /// that every rank has, then, for each group of ranks with shards, the parts that this rank has.
  /// Throws UsageError, which names `call`, for parameters that only another Accelerator can clip.
  [[nodiscard]] std::vector<detail::GradientPart> gradient_parts(
      const std::vector<at::Tensor>& parameters, const char* call);

  /// Returns the live schedules, in the same way.
  [[nodiscard]] std::vector<AcceleratedScheduler> live_schedulers();

  /// Returns the live loaders, for checkpoints and for calls that change all loaders.
  [[nodiscard]] std::vector<detail::LoaderPlan> live_loaders();

  /// Returns all that save_state() saves, and all that load_state() loads from the checkpoint of
  /// `manifest`.
  [[nodiscard]] TrainingState training_to_save();
  [[nodiscard]] TrainingState training_to_load(const Manifest& manifest);
  /// Returns what both have in common.
  [[nodiscard]] TrainingState prepared_training();
  [[nodiscard]] StatePart progress_part();
  void load_progress(std::int64_t step, std::optional<std::int64_t> iteration);
  [[nodiscard]] OpenWindow open_window();

  /// Checks all that is given to prepare() before any of it changes. Throws UsageError and
  /// ConfigError for what the calls that follow would refuse after they have changed a part.
  void require_preparable(const std::vector<detail::GivenObject>& objects);
  void require_preparable(const void* module, const ModuleView& view);
  /// `beside`: the models that are given with the optimizer.
  void require_preparable(torch::optim::Optimizer& optimizer,
                          const std::vector<ModuleView>& beside);
  /// Returns what `given` stands for, by the names that live models and `beside` give parameters.
  [[nodiscard]] torch::optim::Optimizer& real_optimizer(torch::optim::Optimizer& given,
                                                        const std::vector<ModuleView>& beside);
  void require_preparable(const detail::LoaderPlan& loader) const;
  /// Throws UsageError, which names `call`, if this Accelerator has nothing to save or load, and
  /// another one has prepared a model.
  void require_prepared_something(const char* call);

  /// Returns the core of the module at that address, or makes one.
  [[nodiscard]] std::shared_ptr<detail::ModelCore> adopt(const void* module,
                                                         const std::function<ModuleView()>& view);

  /// Returns how models are divided; nullopt where every rank has them whole. Units compute in fp32
  /// on CPUs that are slow in the policy's 16 bits. [collective] on CPUs
  [[nodiscard]] std::optional<ResolvedFsdpOptions> sharding_settings();

  /// Returns the types that a forward computes in. [collective] on CPUs
  [[nodiscard]] detail::ForwardPrecision forward_precision(
      const std::optional<ResolvedFsdpOptions>& sharding);

  /// Returns the type that all ranks compute in if the policy says `asked`: fp32 on a CPU that is
  /// slow in 16 bits. [collective] on CPUs
  [[nodiscard]] at::ScalarType agreed_type(at::ScalarType asked);

  /// Returns the lowest of the ranks that share this rank's disk.
  [[nodiscard]] int disk_leader() const;
  [[nodiscard]] bool saves() const { return state.process_index() == disk_leader(); }

  /// Returns the settings that all ranks must have alike, whatever they prepare.
  [[nodiscard]] detail::SettingsAgreement settings() const;
  /// Arranges that, before the first step, all ranks compare their settings and what they have
  /// prepared. `models` have just been through a backward. Happens once, and not while ranks may
  /// run out of inputs.
  void compare_at_first_step(const Models& models);
  void note_clipping(const std::string& clipping, const std::vector<detail::GradientPart>& parts);

  /// Agrees with the other ranks on a signal. See Accelerator::should_stop. [collective]
  [[nodiscard]] bool agree_to_stop();
  void finish_earlier_save();

  /// See Accelerator::clip_grad_norm_.
  at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                            double norm_type);
  /// Arranges that steps of `optimizer` clip its gradients as the launcher's file asks, unless the
  /// loop clips itself.
  void clip_steps_of(const AcceleratedOptimizer& optimizer);
  /// Optimizers may outlive this object, and what they are forgotten by: their steps then clip
  /// nothing.
  void stop_clipping();
  void clip_at_step(torch::optim::Optimizer& optimizer, double max_norm);
  /// Returns the place of a plugin in `deepspeeds`. Throws UsageError, which lists the names.
  [[nodiscard]] std::size_t place_of_deepspeed(const std::string& name) const;
  /// Returns the parameters of live models whose values `optimizer` steps, whole or as this rank's
  /// parts, and those of its parameters that belong to no model.
  [[nodiscard]] std::vector<at::Tensor> parameters_of(torch::optim::Optimizer& optimizer);

  /// Whether losses are scaled.
  [[nodiscard]] bool scales() const { return scaler && scaler->is_enabled(); }

  /// Records the number of items of a loss, or that its items are not counted. Throws UsageError.
  void count(std::optional<std::int64_t> num_items, const Models& models);

  /// Runs `backward` between the steps of the models' engines, and records a failure. [collective]
  void run_backward(const Models& models, const BackwardPass& pass,
                    const std::function<void()>& backward);

  AcceleratorOptions options;
  PartialState state;
  bool debug;
  std::vector<detail::NamedDeepSpeed> deepspeeds;  // The program's plugins, or the launcher's.
  std::size_t active_deepspeed = 0;
  std::optional<ResolvedDeepSpeed> deepspeed;  // The active settings, if there are any.
  MixedPrecision precision;
  detail::HalfOnCpu half_on_cpu{state.communicator()};
  std::optional<ResolvedFsdpOptions> fsdp;  // If models are sharded.
  std::shared_ptr<GradScaler> scaler;       // For fp16 only.
  std::shared_ptr<GradientState> gradient_state;
  std::vector<std::weak_ptr<detail::ModelCore>> models;
  /// Shared with the schedules, which ask whether their optimizer stepped.
  std::shared_ptr<PreparedOptimizers> optimizers = std::make_shared<PreparedOptimizers>();
  std::vector<std::weak_ptr<AcceleratedScheduler::Core>> schedulers;
  std::vector<std::function<std::optional<detail::LoaderPlan>()>> loaders;
  detail::TiedParameters ties;
  std::weak_ptr<JoinedInputs> joined;      // Of the present scope.
  detail::ItemCount items;                 // Of the present accumulation window.
  std::optional<std::uint64_t> data_seed;  // Rank 0's, once agreed on.
  detail::Checkpointing checkpointing;
  Trackers trackers;
  bool compares_at_first_step = true;
  bool compared_loaders = false;            // In a prepare() of loaders.
  std::string clipping_before_step = {};    // Of the first step, not compared yet.
  bool loop_clips = false;                  // It has called clip_grad_norm_.
  std::optional<StopSignals> stop_signals;  // Once the program asks for them.
  int stopped_by = 0;                       // The signal on which all ranks have agreed.
  struct SignalledSave {
    std::filesystem::path folder;
    SaveStateOptions options;
  };
  std::optional<SignalledSave> save_on_signal;
};

}  // namespace accelerate
