// Data parallel training with a full copy of the model on every rank (DDP).
#pragma once

#include <memory>
#include <string>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Upstream's names and defaults; what is not here yet is not accepted.
struct DistributedDataParallelKwargs {
  bool broadcast_buffers = true;        ///< After each step everyone has rank 0's buffers.
  double bucket_cap_mb = 25;            ///< Size of a gradient bucket, MiB.
  bool find_unused_parameters = false;  ///< Allow parameters that a forward does not use.
};

/// What makes a model of one process a replica of one model. Non-template: Prepared<M> puts it
/// around any module. In a group of one it does nothing.
class DistributedDataParallel {
 public:
  /// Checks that all ranks have the same parameters, then gives everyone rank 0's parameters and
  /// buffers. [collective] Throws CommError that lists the first difference by rank.
  DistributedDataParallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                          const DistributedDataParallelKwargs& kwargs = {});
  ~DistributedDataParallel();

  /// To be called before each forward of the prepared model; with gradients enabled it arms the
  /// model.
  void before_forward(bool grad_enabled);

  /// Around each backward that may reach the model. `retain_graph`: another backward follows, so
  /// the model stays armed. begin and finish are [collective] when gradients are synchronised.
  void begin_backward(bool retain_graph);
  void finish_backward();
  /// Instead of finish_backward when backward threw.
  void abandon_backward(const std::string& reason) noexcept;

  /// While false, backward only accumulates locally. Default true. Local; must agree on all ranks.
  void set_synchronize(bool synchronize);
  [[nodiscard]] bool synchronize() const;

  /// The next backward that reaches the model synchronises, whatever set_synchronize said: for
  /// forwards that ran under no_sync and whose loss is to be the last of its window. Local; must
  /// agree on all ranks.
  void trigger_sync_in_backward();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
