// What makes a model that every rank has, or has a part of, one model: the interface of the
// strategies. Life of a step: before_forward … after_forward, then run_backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/comm_hook.h"

namespace accelerate {

/// One backward, as an engine needs to know it.
struct BackwardPass {
  at::Tensor loss;                 ///< The root of the graph, as backward() is called on it.
  bool retain_graph = false;       ///< Another backward follows, so the model stays armed.
  bool several_models = false;     ///< Other engines of the group take part.
  bool reduce_at_the_end = false;  ///< Nothing is sent before finish_backward.
};

class ParallelEngine {
 public:
  ParallelEngine() = default;
  virtual ~ParallelEngine() = default;
  ParallelEngine(const ParallelEngine&) = delete;
  ParallelEngine& operator=(const ParallelEngine&) = delete;

  /// To be called before each forward of the prepared model; with gradients enabled it arms the
  /// model.
  virtual void before_forward(bool grad_enabled) = 0;
  /// To be called when that forward has returned. Where all ranks take part in it, throws CommError
  /// when another rank left its own by an exception, and UsageError when another rank does more.
  virtual void after_forward() {}
  /// To be called in place of after_forward(), or after it has thrown, when an exception ends the
  /// forward.
  virtual void leave_forward() noexcept {}
  /// What made an operator fail in a way that LibTorch cannot express, to be thrown in place of
  /// what it threw; null when there is nothing. Asked once.
  [[nodiscard]] virtual std::exception_ptr take_failure() noexcept { return nullptr; }

  /// Around each backward that may reach the model (run_backward does it for several models).
  /// begin and finish are [collective] when gradients are synchronised.
  virtual void begin_backward(const BackwardPass& pass) = 0;
  virtual void finish_backward() = 0;
  /// When backward, or one of the two, threw: the next step begins anew. If gradients were to be
  /// synchronised the group ends, and peers get a CommError with `reason`: those that wait for this
  /// rank would wait for ever, or take its next step for this one.
  virtual void abandon_backward(const at::Tensor& loss, const std::string& reason) = 0;

  /// While false, backward only accumulates locally. Default true. Local; must agree on all ranks.
  virtual void set_synchronize(bool synchronize) = 0;
  [[nodiscard]] virtual bool synchronize() const = 0;

  /// The next backward that reaches the model synchronises, whatever set_synchronize said: for
  /// forwards that ran under no_sync and whose loss is to be the last of its window. Local; must
  /// agree on all ranks.
  virtual void trigger_sync_in_backward() = 0;

  /// To be called when a micro-batch of an accumulation window begins; local. watch_writes: it does
  /// not synchronise, and is in `window`; none: it does. Before that, require_unwritten throws
  /// UsageError when the program has changed parameters since a watched micro-batch of `window`, as
  /// by the step of an optimizer that is not prepared. An engine that looks before each forward
  /// need not look here.
  virtual void require_unwritten(std::int64_t /*window*/) {}
  virtual void watch_writes(std::optional<std::int64_t> /*window*/) {}

  /// Gradients travel by `hook` from the next backward on; an empty one is a plain mean. Local; all
  /// ranks must register the same. Throws UsageError where gradients do not travel in buckets.
  virtual void register_comm_hook(CommHook hook) = 0;

  [[nodiscard]] virtual const std::shared_ptr<Communicator>& communicator() const = 0;
};

/// Runs `backward`, which computes the gradients of pass.loss, between begin_backward and
/// finish_backward of `engines`, whose order must be that of all ranks; what any of them throws
/// reaches the peers too. [collective when gradients are synchronised]
void run_backward(const std::vector<ParallelEngine*>& engines, BackwardPass pass,
                  const std::function<void()>& backward);

}  // namespace accelerate
