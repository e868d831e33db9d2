// Training with a slice of the model on every rank (FSDP, ZeRO). Parameters, gradients and
// optimizer state are divided among the ranks that share a model. Whole parameters exist only while
// the model computes with them. Works for any unmodified module; docs/fsdp.md explains how.
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
  /// Divides the parameters of the viewed module among the ranks, and makes its leaves tensors
  /// whose memory comes and goes. With sync_module_states all ranks get rank 0's values, and the
  /// leaves of other ranks may be on the meta device. [collective] Throws CommError, which lists
  /// the first difference by rank; UsageError for parameters that cannot be sharded; ConfigError
  /// for settings that do not fit the group or the model.
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

  /// Returns the ranks that share one copy of the model. Norms of shards add up over these ranks.
  [[nodiscard]] Communicator& shard_group() const;
  /// Returns the type to which floating inputs are to be cast, so that it is the parameters' type;
  /// nullopt when the settings name none.
  [[nodiscard]] std::optional<at::ScalarType> input_dtype() const;
  /// Returns the type to which outputs are to be cast; nullopt when the settings name none.
  [[nodiscard]] std::optional<at::ScalarType> output_dtype() const;

  /// Returns this rank's part of `leaf`, shape {n}. Optimizers hold it in place of the leaf, and it
  /// has the gradient. Undefined for a tensor that is not sharded here.
  [[nodiscard]] at::Tensor local_parameter(const at::Tensor& leaf) const;
  /// Returns this rank's part of `leaf` with its name and place; nullopt for a tensor that is not
  /// sharded here.
  [[nodiscard]] std::optional<NamedShard> shard_of(const at::Tensor& leaf) const;
  /// Whether `tensor` is a local parameter.
  [[nodiscard]] bool is_local(const at::Tensor& tensor) const;
  /// Returns the local parameters of the model, in its order; tied parameters have one, in the
  /// first place.
  [[nodiscard]] std::vector<at::Tensor> local_parameters() const;
  /// Returns the local parameters with names and places, for checkpoints.
  [[nodiscard]] std::vector<NamedShard> shards() const;
  /// Notes that an optimizer will update the local parameters.
  void claim();
  /// Runs `write`, which changes local parameters, and publishes the new values to all ranks.
  /// [collective] When `write` throws the group ends, because the other ranks would wait.
  void update(const std::function<void()>& write);
  /// As update(), for a `write` that brings all ranks to the same step, as loading does. Updates
  /// are counted from 0 again.
  void replace(const std::function<void()>& write);
  /// Throws UsageError when ranks have updated the model unequally often. [collective]
  void require_equal_updates() const;
  /// Throws UsageError, which says that `what` was about to happen, while summon_full_params lasts.
  void require_not_summoned(const std::string& what) const;
  /// Drops the gradients of parameters whose grad() the program has taken away (net->zero_grad()).
  void follow_leaves();
  /// Drops the gradients of the local parameters among `locals`, and what was accumulated for them.
  /// With `set_to_none` false gradients that exist become zero.
  void zero_grad(const std::vector<at::Tensor>& locals, bool set_to_none = true);
  /// Whether gradients of earlier micro-batches were lost in a backward that failed, and nothing
  /// was zeroed since.
  [[nodiscard]] bool has_lost_gradients() const;

  /// Calls `visit` with the name and the tensor of each whole parameter, in the type that
  /// optimizers see. [collective] Memory: one unit.
  void for_each_whole(const std::function<void(const std::string& name, const at::Tensor&)>& visit);

  /// Between begin and end the user's leaves hold their whole values, in the type that optimizers
  /// see. After the end they are sharded again. The model must not run in between. [collective, end
  /// only with writeback]
  void begin_summon(const SummonOptions& options);
  void end_summon(bool writeback);

  [[nodiscard]] ShardedMemory memory() const;
  /// Sets a function that is called for each event of a unit, on the thread where it happens.
  void set_observer(std::function<void(const ShardEvent&)> observer);
  /// Returns "shared pages", "gathered from windows", "gathered by collectives" or "resident".
  [[nodiscard]] const std::string& full_parameters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
