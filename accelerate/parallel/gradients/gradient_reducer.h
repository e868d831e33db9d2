// Averages gradients over ranks while backward is still running.
//
// Each gradient is copied into its place in a bucket as soon as it is accumulated, already divided
// by the world size. The leaf's grad becomes that place, so nothing is copied back. A bucket is
// all-reduced when it is full. Buckets start in one fixed order on all ranks, whatever the order of
// gradients. Sources: Li et al., "PyTorch Distributed", VLDB 2020;
// torch/csrc/distributed/c10d/reducer.hpp. That reducer packs buckets again after the first
// iteration; this one does not, so that a resumed run reduces as the first run did.
//
// Life of a step: begin(), backward, finish(). Between finish() and the next begin() the gradients
// belong to the user and lie in the buckets. When the program keeps a gradient that the leaf has
// let go, the gradient stays as it is: its bucket gets new memory (unless gradient_as_bucket_view).
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/bucket_store.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

// The errors of a GradientReducer about gradients that are not as expected. Each names the
// parameters and the cure.

/// For a leaf without a hook that requires gradients now: they would silently stay local.
[[nodiscard]] UsageError thawed(const std::string& name);

/// For a gradient that was not expected, or came more often than expected.
[[nodiscard]] UsageError came_unexpectedly(const Slot& slot, bool static_graph);

/// For gradients that had not come when backward was over.
[[nodiscard]] UsageError stayed_away(const std::vector<std::string>& names, bool static_graph);

/// For parameters that this rank used in its first step of a static graph, which came after the
/// first step of the other ranks, and that the other ranks had not used.
[[nodiscard]] UsageError unknown_to_the_group(const std::vector<std::string>& names);

[[nodiscard]] UsageError is_sparse(const std::string& name);

}  // namespace accelerate::detail

namespace accelerate {

struct GradientReducerOptions {
  BucketLimits limits = {};
  /// true: parameters that get no gradient count as zero, at the cost of a walk over the graph and
  /// one small all-reduce per step. false: they cause a UsageError that names them.
  bool find_unused_parameters = false;
  /// true: the first step learns which parameters get gradients and how often; every later step
  /// must be like it. Costs nothing after the first step, whose reduction waits for the end of
  /// backward.
  bool static_graph = false;
  /// true: a gradient that the program keeps beyond its step is overwritten by a later step. false:
  /// it keeps its memory.
  bool gradient_as_bucket_view = false;
};

/// Describes one backward to a reducer.
struct GradientPass {
  bool synchronize = true;  ///< false: gradients only accumulate locally.
  at::Tensor loss = {};     ///< The root of the graph; undefined when it is not known yet.
  bool shadow = false;      ///< This rank has no backward and takes part with zeros.
  bool several = false;     ///< Other reducers of the group may be in the same backward.
  bool in_finish = false;   ///< No bucket starts before flush().
};

class GradientReducer {
 public:
  /// Attaches a hook to each leaf among `parameters` that requires gradients; tied leaves get one.
  /// Local: the caller has made sure that all ranks have the same parameters.
  GradientReducer(const std::vector<NamedTensor>& parameters,
                  std::shared_ptr<Communicator> communicator, GradientReducerOptions options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Sets a function that is called for each gradient before it is reduced. It throws when the
  /// gradient should not have come (a forward that was not armed, a backward that was not begun).
  void set_guard(std::function<void(const std::string& parameter)> guard);

  /// Reduces by `hook` from the next step on, or by a plain mean when it is empty. All ranks must
  /// register the same hook. Local.
  void set_comm_hook(CommHook hook);

  /// Whether a backward from `loss` accumulates into any parameter. Local.
  [[nodiscard]] bool is_reached_by(const at::Tensor& loss) const;
  /// Whether begin() and flush() are collective even when no gradient comes.
  [[nodiscard]] bool asks_every_time() const;

  /// Starts a step. [collective with find_unused_parameters, when it synchronises]
  void begin(const GradientPass& pass = {});

  /// Starts the buckets that backward has not started. Returns whether there is anything to wait
  /// for: the same on all ranks. [collective, unless the step only accumulates or no gradient came]
  /// Throws UsageError: unused parameters, a graph that is not static.
  bool flush();
  /// Waits for all buckets. Throws CommError.
  void wait();
  /// Calls flush(), and wait() if there is anything to wait for. Returns whether there was, or
  /// whether local gradients came.
  bool finish();

  /// Ends a step that failed. If the step synchronises the group ends too: the ranks are no longer
  /// in step, and peers may be waiting for this rank.
  void abandon(const std::string& reason) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
