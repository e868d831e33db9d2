// Data parallel training with a full copy of the model on every rank (DDP).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/engine.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Makes the copies of a model on all ranks act as one model. Not a template: Prepared<M> puts it
/// around any module.
class DistributedDataParallel final : public ParallelEngine {
 public:
  /// Checks that all ranks have the same parameters, then gives all ranks rank 0's parameters and
  /// buffers. [collective] Throws CommError, which lists the first difference by rank; UsageError
  /// for a sparse parameter or buffer; ConfigError for keywords that are out of range or contradict
  /// each other.
  DistributedDataParallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                          const DistributedDataParallelKwargs& kwargs = {},
                          WhenAlone when_alone = WhenAlone::train);
  ~DistributedDataParallel() override;

  void before_forward(bool grad_enabled) override;
  void begin_backward(const BackwardPass& pass) override;
  void finish_backward() override;
  void abandon_backward(const at::Tensor& loss, const std::string& reason) override;
  /// Replaces the keywords' comm_hook; an empty hook means comm_hook = no.
  void register_comm_hook(CommHook hook) override;
  void require_unwritten(std::int64_t window) override;
  void watch_writes(std::optional<std::int64_t> window) override;

  /// Whether a backward from `loss` would communicate for this model. Local; one walk over the
  /// graph.
  [[nodiscard]] bool would_communicate(const at::Tensor& loss) const;

  /// Take part in a backward of the other ranks when this rank's inputs have run out: its gradients
  /// count as zero. The leaves' own gradients stay as they are. [collective]
  void begin_shadow(const BackwardPass& pass);
  void finish_shadow();

  /// Sets the rank whose buffers all ranks get: 0, unless the inputs of rank 0 have run out.
  void set_buffer_source(int rank);

  /// Gives all ranks the parameters and, with broadcast_buffers, the buffers of `source`.
  /// [collective]
  void broadcast_state(int source);
  /// Gives all ranks the mean of the parameters and, with broadcast_buffers, rank 0's buffers.
  /// [collective]
  void average_parameters();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
