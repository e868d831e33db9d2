// Data parallel training with a full copy of the model on every rank (DDP).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// One backward, as an engine needs to know it.
struct BackwardPass {
  at::Tensor loss;                 ///< The root of the graph, as backward() is called on it.
  bool retain_graph = false;       ///< Another backward follows, so the model stays armed.
  bool several_models = false;     ///< Other engines of the group take part.
  bool reduce_at_the_end = false;  ///< Nothing is sent before finish_backward.
};

/// What makes a model of one process a replica of one model. Non-template: Prepared<M> puts it
/// around any module. In a group of one it does nothing.
class DistributedDataParallel {
 public:
  /// Checks that all ranks have the same parameters, then gives everyone rank 0's parameters and
  /// buffers. [collective] Throws CommError that lists the first difference by rank, UsageError for
  /// a sparse one, ConfigError for keywords that are out of range or contradict one another.
  DistributedDataParallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                          const DistributedDataParallelKwargs& kwargs = {});
  ~DistributedDataParallel();

  /// To be called before each forward of the prepared model; with gradients enabled it arms the
  /// model.
  void before_forward(bool grad_enabled);

  /// Around each backward that may reach the model (run_backward does it for several models).
  /// begin and finish are [collective] when gradients are synchronised.
  void begin_backward(const BackwardPass& pass);
  void finish_backward();
  /// When backward, or one of the two, threw: the next step begins anew. If gradients were to be
  /// synchronised the group ends, and peers get a CommError with `reason`: those that wait for this
  /// rank would wait for ever, or take its next step for this one.
  void abandon_backward(const at::Tensor& loss, const std::string& reason);

  /// While false, backward only accumulates locally. Default true. Local; must agree on all ranks.
  void set_synchronize(bool synchronize);
  [[nodiscard]] bool synchronize() const;

  /// The next backward that reaches the model synchronises, whatever set_synchronize said: for
  /// forwards that ran under no_sync and whose loss is to be the last of its window. Local; must
  /// agree on all ranks.
  void trigger_sync_in_backward();

  /// Gradients travel by `hook` from the next backward on, instead of by the keywords' comm_hook;
  /// an empty one is that of comm_hook = no. Local; all ranks must register the same.
  void register_comm_hook(CommHook hook);

  /// Whether a backward from `loss` would communicate for this model. Local; one walk over the
  /// graph.
  [[nodiscard]] bool would_communicate(const at::Tensor& loss) const;

  /// Take the part of a rank whose inputs have run out in a backward of the others: zeros for its
  /// gradients. The leaves' own gradients stay as they are. [collective]
  void begin_shadow(const BackwardPass& pass);
  void finish_shadow();

  /// The rank whose buffers everyone gets; 0 unless that one's inputs have run out.
  void set_buffer_source(int rank);

  /// Everyone gets the parameters and buffers of `source`. [collective]
  void broadcast_state(int source);
  /// Everyone gets the mean of the parameters and, with broadcast_buffers, rank 0's buffers.
  /// [collective]
  void average_parameters();

  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs `backward`, which computes the gradients of pass.loss, between begin_backward and
/// finish_backward of `engines`, whose order must be that of all ranks; what any of them throws
/// reaches the peers too. [collective when gradients are synchronised]
void run_backward(const std::vector<DistributedDataParallel*>& engines, BackwardPass pass,
                  const std::function<void()>& backward);

}  // namespace accelerate
