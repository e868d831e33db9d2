// The interface of the parallel strategies. A strategy makes the copies or shards of a model on all
// ranks act as one model. Calls in a step: before_forward … after_forward, then run_backward.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/tensor/named_shard.h"

namespace accelerate {

// What a sharded model does and takes, for tests and for the eye.

/// Something that a sharded model did; for tests and for inspection.
struct ShardEvent {
  enum class Kind { gather, prefetch, release, reduce };
  Kind kind;
  std::string unit;
  bool operator==(const ShardEvent&) const = default;
};

/// Bytes of a rank's memory for one model.
struct ShardedMemory {
  std::size_t slice_bytes = 0;          ///< This rank's slices of parameters.
  std::size_t full_bytes = 0;           ///< Full values present now, spare slots included.
  std::size_t peak_full_bytes = 0;      ///< The largest full_bytes so far.
  std::size_t gradient_bytes = 0;       ///< Slices of gradients, and units under way.
  std::size_t peak_gradient_bytes = 0;  ///< The largest gradient_bytes so far.
};

/// Options of summon_full_params().
struct SummonOptions {
  bool writeback = true;    ///< Keeps changes to the parameters: each rank those in its slice.
  bool rank0_only = false;  ///< Only rank 0 gets whole parameters; not together with writeback.
};

class DistributedDataParallel;

/// Describes one backward to an engine.
struct BackwardPass {
  at::Tensor loss;                 ///< The root of the graph: the tensor whose backward() runs.
  bool retain_graph = false;       ///< Another backward follows, so the model stays armed.
  bool several_models = false;     ///< Other engines of the group take part too.
  bool reduce_at_the_end = false;  ///< Nothing is sent before finish_backward.
};

class ParallelEngine {
 public:
  ParallelEngine() = default;
  virtual ~ParallelEngine() = default;
  ParallelEngine(const ParallelEngine&) = delete;
  ParallelEngine& operator=(const ParallelEngine&) = delete;

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
  /// anew. If gradients were to be synchronised the group ends, and peers get a CommError with
  /// `reason`. Otherwise a waiting peer would wait for ever, or take this rank's next step for the
  /// failed one.
  virtual void abandon_backward(const at::Tensor& loss, const std::string& reason) = 0;

  /// While false, backward only accumulates locally. Default true. Local; must agree on all ranks.
  virtual void set_synchronize(bool synchronize) = 0;
  [[nodiscard]] virtual bool synchronize() const = 0;

  /// Makes the next backward that reaches the model synchronise, whatever set_synchronize said. For
  /// a loss that ends its window although its forward ran under no_sync. Local; must agree on all
  /// ranks.
  virtual void trigger_sync_in_backward() = 0;

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

  [[nodiscard]] virtual const std::shared_ptr<Communicator>& communicator() const = 0;

  // --- what this rank has of the model (default: all of it) --------------------------------------

  /// Returns the engine as one whose ranks each have the whole model. Throws UsageError, which says
  /// that `feature` needs that, for a sharded model.
  [[nodiscard]] virtual DistributedDataParallel& replicated(const std::string& feature) = 0;
  /// Whether a rank has parts of the parameters instead of the whole ones.
  [[nodiscard]] virtual bool is_sharded() const { return false; }
  /// Returns the type to which floating inputs are to be cast, so that it is the parameters' type;
  /// nullopt when inputs stay as they are.
  [[nodiscard]] virtual std::optional<at::ScalarType> input_dtype() const { return std::nullopt; }
  /// Returns the type to which outputs are to be cast; nullopt when the settings name none.
  [[nodiscard]] virtual std::optional<at::ScalarType> output_dtype() const { return std::nullopt; }

  /// Returns this rank's part of `leaf`, shape {n}, or `leaf` itself where the rank has all of it.
  /// Optimizers hold the part in place of the leaf, and it has the gradient.
  [[nodiscard]] virtual at::Tensor local_parameter(const at::Tensor& leaf) const { return leaf; }
  /// Returns this rank's part of `leaf` with its name and place; nullopt where the rank has all of
  /// `leaf`.
  [[nodiscard]] virtual std::optional<NamedShard> shard_of(const at::Tensor& /*leaf*/) const {
    return std::nullopt;
  }
  /// Returns the ranks that together have `parameter`, a leaf or a part of one. Norms of parts add
  /// up over these ranks. Null where each rank has all of it.
  [[nodiscard]] virtual Communicator* ranks_of(const at::Tensor& /*parameter*/) const {
    return nullptr;
  }

  /// Notes that an optimizer will update the local parameters.
  virtual void claim() {}
  /// Runs `write`, which changes local parameters, and publishes the new values to all ranks.
  /// [collective when sharded] When `write` throws then, the group ends, because the other ranks
  /// would wait.
  virtual void update(const std::function<void()>& write) { write(); }
  /// As update(), for a `write` that brings all ranks to the same step, as loading does. Updates
  /// are counted from 0 again.
  virtual void replace(const std::function<void()>& write) { write(); }
  /// Throws UsageError when ranks have updated their parts unequally often. [collective when
  /// sharded]
  virtual void require_equal_updates() const {}

  /// Drops the gradients of parts whose leaf's grad() the program has taken away
  /// (net->zero_grad()).
  virtual void follow_leaves() {}
  /// Drops the gradients of the parts among `locals`, and what was accumulated for them. With
  /// `set_to_none` false gradients that exist become zero. Does not touch gradients of whole
  /// leaves.
  virtual void zero_grad(const std::vector<at::Tensor>& /*locals*/, bool /*set_to_none*/ = true) {}
  /// Whether gradients of earlier micro-batches were lost in a backward that failed, and nothing
  /// was zeroed since.
  [[nodiscard]] virtual bool has_lost_gradients() const { return false; }

  /// Between begin and end the user's leaves hold their whole values, in the type that optimizers
  /// see. After the end they are sharded again. The model must not run in between. [collective when
  /// sharded, end only with writeback]
  virtual void begin_summon(const SummonOptions& /*options*/) {}
  virtual void end_summon(bool /*writeback*/) {}
  /// Throws UsageError, which says that `what` was about to happen, between these two calls.
  virtual void require_not_summoned(const std::string& /*what*/) const {}

  /// Returns the bytes that a sharded model takes on this rank.
  [[nodiscard]] virtual ShardedMemory memory() const { return {}; }
  /// Sets a function that is called for each event of a unit, on the thread where it happens.
  virtual void set_observer(std::function<void(const ShardEvent&)> /*observer*/) {}
  /// Returns where whole values come from: "whole", "shared pages", "gathered from windows",
  /// "gathered by collectives", "resident".
  [[nodiscard]] virtual std::string_view full_parameters() const { return "whole"; }
};

/// Runs `backward`, which computes the gradients of pass.loss, between begin_backward and
/// finish_backward of `engines`. The order of `engines` must be the same on all ranks. Rethrows
/// what any of them throws, after telling the peers. [collective when gradients are synchronised]
void run_backward(const std::vector<ParallelEngine*>& engines, BackwardPass pass,
                  const std::function<void()>& backward);

}  // namespace accelerate
