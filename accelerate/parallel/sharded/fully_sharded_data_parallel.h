// Training with a slice of the model on every rank (FSDP, ZeRO): parameters, gradients and
// optimizer state are divided among the ranks that share a model, and whole parameters are there
// only while they are computed with. Works for any module, unmodified: docs/fsdp.md says how.
//
// Sources: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/config/fsdp_plugin.h"
#include "accelerate/parallel/engine.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/summon_options.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/named_shard.h"

namespace accelerate {

struct ShardingOptions {
  FsdpSettings settings = {};
  c10::Device device = c10::Device(c10::kCPU);  ///< Where the model computes.
  int ranks_of_host = 0;  ///< With HYBRID_*: ranks that share a model; 0: all.
};

class FullyShardedDataParallel final : public ParallelEngine {
 public:
  /// Divides the parameters of the viewed module among the ranks and makes its leaves tensors of
  /// memory that comes and goes. With sync_module_states everyone's values are rank 0's, and other
  /// ranks may come with leaves of the meta device. [collective] Throws CommError that lists the
  /// first difference by rank; UsageError for parameters that cannot be sharded; ConfigError for
  /// settings that do not fit the group or the model.
  FullyShardedDataParallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                           const ShardingOptions& options);
  ~FullyShardedDataParallel() override;

  void before_forward(bool grad_enabled) override;
  void after_forward() override;
  void leave_forward() noexcept override;
  [[nodiscard]] std::exception_ptr take_failure() noexcept override;
  void begin_backward(const BackwardPass& pass) override;
  void finish_backward() override;
  void abandon_backward(const at::Tensor& loss, const std::string& reason) override;
  void set_synchronize(bool synchronize) override;
  [[nodiscard]] bool synchronize() const override;
  void trigger_sync_in_backward() override;
  /// Throws UsageError: gradients travel unit by unit in the plugin's reduce type.
  void register_comm_hook(CommHook hook) override;
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const override;

  /// The ranks that share one copy of the model: norms of shards add up over them.
  [[nodiscard]] Communicator& shard_group() const;
  /// Type that floating inputs are to be cast to, so that they meet parameters of the same type.
  [[nodiscard]] std::optional<at::ScalarType> input_dtype() const;
  /// Type that outputs are to be cast to, when the settings name one.
  [[nodiscard]] std::optional<at::ScalarType> output_dtype() const;

  /// What this rank has of `leaf`, shape {n}: what optimizers hold in its place, and where its
  /// gradient is. Undefined for a tensor that is not sharded here.
  [[nodiscard]] at::Tensor local_parameter(const at::Tensor& leaf) const;
  /// The same with its name and place; nothing for a tensor that is not sharded here.
  [[nodiscard]] std::optional<NamedShard> shard_of(const at::Tensor& leaf) const;
  /// Whether `tensor` is a local parameter.
  [[nodiscard]] bool is_local(const at::Tensor& tensor) const;
  /// The same of all parameters, in the order of the model; of tied ones the first.
  [[nodiscard]] std::vector<at::Tensor> local_parameters() const;
  /// The same with names and places, for checkpoints.
  [[nodiscard]] std::vector<NamedShard> shards() const;
  /// An optimizer has come that will update the local parameters.
  void claim();
  /// Runs `write`, which changes local parameters; then all ranks have the new values.
  /// [collective] When it throws, the group ends: the others would wait.
  void update(const std::function<void()>& write);
  /// As update(), by a `write` that brings all ranks to the same step, as loading does.
  void replace(const std::function<void()>& write);
  /// Throws UsageError when ranks have updated the model unequally often. [collective]
  void require_equal_updates() const;
  /// Throws UsageError, which says that `what` was about to happen, while summon_full_params lasts.
  void require_not_summoned(const std::string& what) const;
  /// Drops the gradients of parameters whose grad() the program has taken away (net->zero_grad()).
  void follow_leaves();
  /// Drops the gradients of those of `locals` that are local parameters, and what was accumulated
  /// for them; without `set_to_none` those that there are become zero.
  void zero_grad(const std::vector<at::Tensor>& locals, bool set_to_none = true);
  /// Whether gradients of earlier micro-batches went with a backward that failed, and nothing was
  /// zeroed since.
  [[nodiscard]] bool has_lost_gradients() const;

  /// The whole parameters, in the type that optimizers see, one by one: `visit` gets name and
  /// tensor. [collective] Memory: one unit.
  void for_each_whole(const std::function<void(const std::string& name, const at::Tensor&)>& visit);

  /// The user's leaves hold their whole values from begin on, in the type that optimizers see, and
  /// are sharded again after end. [collective, end only with writeback] The model does not run in
  /// between.
  void begin_summon(const SummonOptions& options);
  void end_summon(bool writeback);

  [[nodiscard]] ShardedMemory memory() const;
  /// Calls `observer` for whatever happens to units, on the thread where it does.
  void set_observer(std::function<void(const ShardEvent&)> observer);
  /// "shared pages", "gathered from windows", "gathered by collectives", "resident".
  [[nodiscard]] const std::string& full_parameters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
