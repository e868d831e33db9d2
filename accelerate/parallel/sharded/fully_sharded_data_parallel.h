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
#include <string_view>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/fsdp_settings.h"
#include "accelerate/parallel/engine.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

// How a model is divided, as the engine gets it.

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

  [[nodiscard]] DistributedDataParallel& replicated(const std::string& feature) override;
  [[nodiscard]] bool is_sharded() const override { return true; }
  [[nodiscard]] std::optional<at::ScalarType> input_dtype() const override;
  [[nodiscard]] std::optional<at::ScalarType> output_dtype() const override;
  [[nodiscard]] at::Tensor local_parameter(const at::Tensor& leaf) const override;
  [[nodiscard]] std::optional<NamedShard> shard_of(const at::Tensor& leaf) const override;
  [[nodiscard]] Communicator* ranks_of(const at::Tensor& parameter) const override;
  void claim() override;
  void update(const std::function<void()>& write) override;
  void replace(const std::function<void()>& write) override;
  void require_equal_updates() const override;
  void follow_leaves() override;
  void zero_grad(const std::vector<at::Tensor>& locals, bool set_to_none = true) override;
  [[nodiscard]] bool has_lost_gradients() const override;
  void begin_summon(const SummonOptions& options) override;
  void end_summon(bool writeback) override;
  void require_not_summoned(const std::string& what) const override;
  [[nodiscard]] ShardedMemory memory() const override;
  void set_observer(std::function<void(const ShardEvent&)> observer) override;
  [[nodiscard]] std::string_view full_parameters() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
