// The interface of the parallel strategies. A strategy makes the copies or shards of a model on all
// ranks act as one model. Calls in a step: before_forward … after_forward, then run_backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/arming.h"
#include "accelerate/parallel/gradients/comm_hook.h"

namespace accelerate {

/// Describes one backward to an engine.
struct BackwardPass {
  at::Tensor loss;                 ///< The root of the graph: the tensor whose backward() runs.
  bool retain_graph = false;       ///< Another backward follows, so the model stays armed.
  bool several_models = false;     ///< Other engines of the group take part too.
  bool reduce_at_the_end = false;  ///< Nothing is sent before finish_backward.
};

/// What a training step asks of a strategy.
class ParallelEngine {
 public:
  explicit ParallelEngine(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  virtual ~ParallelEngine() = default;
  ParallelEngine(const ParallelEngine&) = delete;
  ParallelEngine& operator=(const ParallelEngine&) = delete;

  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

  /// Arms the model when gradients are enabled. To be called before each forward of the prepared
  /// model.
  virtual void before_forward(bool grad_enabled) = 0;
  /// To be called when the forward has returned. Where all ranks take part in a forward, throws
  /// CommError when another rank's forward ended with an exception, and UsageError when another
  /// rank does more.
  virtual void after_forward() {}
  /// To be called when an exception ends the forward: in place of after_forward(), or after it
  /// threw.
  virtual void leave_forward() noexcept {}
  /// Returns the cause of an operator's failure when LibTorch could not express it; null if none.
  /// To be thrown in place of the operator's exception. Returns a cause only once.
  [[nodiscard]] virtual std::exception_ptr take_failure() noexcept { return nullptr; }

  /// To be called before and after each backward that may reach the model; run_backward calls them
  /// for several models. [collective when gradients are synchronised]
  virtual void begin_backward(const BackwardPass& pass) = 0;
  virtual void finish_backward() = 0;
  /// To be called when backward, begin_backward or finish_backward threw: the next step begins
  /// from the start. If gradients were to be synchronised the group ends, and peers get a CommError
  /// with `reason`. Otherwise a waiting peer would wait for ever, or take this rank's next step for
  /// the failed one.
  virtual void abandon_backward(const at::Tensor& loss, const std::string& reason) = 0;

  /// While false, backward only accumulates locally. Default true. Local; must agree on all ranks.
  void set_synchronize(bool synchronize) { arming_.set_synchronize(synchronize); }
  [[nodiscard]] bool synchronize() const { return arming_.synchronize(); }
  /// Makes the next backward that reaches the model synchronise, whatever set_synchronize said. For
  /// a loss that ends its window although its forward ran under no_sync. Local; must agree on all
  /// ranks.
  void trigger_sync_in_backward() { arming_.trigger(); }

  /// To be called when a micro-batch of an accumulation window begins, before watch_writes; local.
  /// Throws UsageError when the program has changed parameters since a watched micro-batch of
  /// `window`, as by the step of an optimizer that is not prepared. An engine that checks before
  /// each forward need not check here.
  virtual void require_unwritten(std::int64_t /*window*/) {}
  /// To be called when a micro-batch begins; local. `window`: the window of a micro-batch that does
  /// not synchronise, which is watched from then on; nullopt: the micro-batch synchronises.
  virtual void watch_writes(std::optional<std::int64_t> /*window*/) {}

  /// Sends gradients by `hook` from the next backward on; an empty hook is a plain mean. Local; all
  /// ranks must register the same hook. Throws UsageError where gradients do not travel in buckets.
  virtual void register_comm_hook(CommHook hook) = 0;

 protected:
  /// Whether gradients may come, and whether they are synchronised.
  detail::Arming arming_;

 private:
  std::shared_ptr<Communicator> communicator_;
};

/// Runs `backward`, which computes the gradients of pass.loss, between begin_backward and
/// finish_backward of `engines`. The order of `engines` must be the same on all ranks. Rethrows
/// what any of them throws, after telling the peers. [collective when gradients are synchronised]
void run_backward(const std::vector<ParallelEngine*>& engines, BackwardPass pass,
                  const std::function<void()>& backward);

}  // namespace accelerate
