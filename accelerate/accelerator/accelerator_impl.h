// What an Accelerator owns. Shared by the sources of the facade, seen by nobody else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/accelerator/checkpointing.h"
#include "accelerate/accelerator/item_count.h"
#include "accelerate/accelerator/settings_agreement.h"
#include "accelerate/accelerator/tied_parameters.h"
#include "accelerate/base/environment.h"
#include "accelerate/optim/sharded_clipping.h"
#include "accelerate/precision/autocast.h"
#include "accelerate/precision/grad_scaler.h"
#include "accelerate/precision/half_on_cpu.h"

namespace accelerate {

namespace detail {
/// The model as a checkpoint sees it: whole, or what this rank has of it.
[[nodiscard]] ModelPart model_part(const ModelCore& core, std::string stem);

/// Calls `write` on rank 0 with the file of a sharded model, whose tensors come one by one when
/// they are fetched. `call` names the caller in messages. [collective]
void with_whole_model(const ModelCore& core, const char* call,
                      const std::function<void(const PlannedFile&)>& write);

/// Tells a DivisibleModule that its parameters are divided, if they are.
void tell_divided(const std::shared_ptr<ModelCore>& core);
}  // namespace detail

struct Accelerator::Impl {
  using Models = std::vector<std::shared_ptr<detail::ModelCore>>;
  using Optimizers = std::vector<AcceleratedOptimizer>;

  explicit Impl(const AcceleratorOptions& accelerator_options);
  ~Impl() { gradient_state->at_first_step = nullptr; }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The live cores; models that went out of scope drop out.
  [[nodiscard]] Models live_models();

  /// The same of the optimizers.
  [[nodiscard]] Optimizers live_optimizers();

  /// Those of them whose gradients clipping `parameters` has to unscale first.
  [[nodiscard]] Optimizers optimizers_of(const std::vector<at::Tensor>& parameters);

  /// What clipping `parameters` has to look at: first those that every rank has, then, for each
  /// sharded model among them, the parts that this rank has.
  [[nodiscard]] std::vector<detail::GradientPart> gradient_parts(
      const std::vector<at::Tensor>& parameters);

  /// The same of the schedules.
  [[nodiscard]] std::vector<AcceleratedScheduler> live_schedulers();

  /// The same of the loaders: for checkpoints, and for what changes all of them.
  [[nodiscard]] std::vector<detail::LoaderPlan> live_loaders();

  /// All that save_state() saves; see Checkpointing::Describe. An empty manifest: to be saved now.
  [[nodiscard]] TrainingState training_state(const Manifest& manifest);
  [[nodiscard]] StatePart progress_part();
  void load_progress(std::int64_t step, std::optional<std::int64_t> iteration);
  void add_window(const Manifest& manifest, TrainingState& training);

  /// The core of the module at that address: the one there is, or a new one.
  [[nodiscard]] std::shared_ptr<detail::ModelCore> adopt(const void* module,
                                                         const std::function<ModuleView()>& view);

  /// What makes the viewed module one model on all ranks; says in `forward` what it computes in.
  /// [collective]
  [[nodiscard]] std::shared_ptr<ParallelEngine> engine_for(const ModuleView& view,
                                                           detail::ForwardPrecision& forward);

  /// The type that all ranks compute in where the policy says `asked`: on a CPU that is slow in 16
  /// bits fp32. [collective] on CPUs
  [[nodiscard]] at::ScalarType agreed_type(at::ScalarType asked);

  /// The lowest of the ranks that share this one's disk, and whether that is this one.
  [[nodiscard]] int disk_leader() const;
  [[nodiscard]] bool saves() const { return state.process_index() == disk_leader(); }

  /// What all ranks must have alike, whatever they prepare.
  [[nodiscard]] detail::Settings settings() const;
  /// Has all ranks compare their settings, and what they have prepared, before the first step;
  /// `models` have just been through a backward. Once, and not while ranks may run out of inputs.
  void compare_at_first_step(const Models& models);
  void note_clipping(const std::string& clipping, const std::vector<detail::GradientPart>& parts);

  /// Whether losses are scaled.
  [[nodiscard]] bool scales() const { return scaler && scaler->is_enabled(); }

  /// Takes note of the items of a loss, or that they are not counted. Throws UsageError.
  void count(std::optional<std::int64_t> num_items, const Models& models);

  /// Runs `backward` between the models' engines, and remembers a failure. [collective]
  void run_backward(const Models& models, const BackwardPass& pass,
                    const std::function<void()>& backward);

  AcceleratorOptions options;
  PartialState state;
  MixedPrecision precision;
  detail::HalfOnCpu half_on_cpu{state.communicator()};
  std::optional<FsdpSettings> fsdp;    // when models are sharded
  std::shared_ptr<GradScaler> scaler;  // for fp16 only
  std::shared_ptr<GradientState> gradient_state = std::make_shared<GradientState>();
  std::vector<std::weak_ptr<detail::ModelCore>> models;
  /// Shared with the schedules, which ask whether their optimizer stepped.
  std::shared_ptr<PreparedOptimizers> optimizers = std::make_shared<PreparedOptimizers>();
  std::vector<std::weak_ptr<AcceleratedScheduler::Core>> schedulers;
  std::vector<std::function<std::optional<detail::LoaderPlan>()>> loaders;
  detail::TiedParameters ties;
  std::weak_ptr<JoinedInputs> joined;      // of the scope there is
  detail::ItemCount items;                 // of the present accumulation window
  std::optional<std::uint64_t> data_seed;  // rank 0's, once it has been agreed on
  detail::Checkpointing checkpointing;
  Trackers trackers;
  bool compares_at_first_step = true;
  bool compared_loaders = false;          // in a prepare() of theirs
  std::string clipping_before_step = {};  // Local so far, of the first step.
  bool trigger = false;
  bool debug = env_flag("ACCELERATE_DEBUG_MODE", false);
};

}  // namespace accelerate
