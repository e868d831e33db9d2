// Averages gradients over ranks while backward is still running.
//
// Each gradient is copied, already divided by the world size, into its place in a bucket the moment
// it is accumulated, and the leaf's grad becomes that place, so nothing is copied back. A full
// bucket is all-reduced at once; buckets start in one fixed order on all ranks, whatever the order
// of gradients. Sources: Li et al., "PyTorch Distributed", VLDB 2020;
// torch/csrc/distributed/c10d/reducer.hpp (which packs again after the first iteration: we do not,
// so that a resumed run reduces as the first did).
//
// Life of a step: begin(), backward, finish(). Between finish() and the next begin() the gradients
// are the user's. They lie in the buckets; one that is kept longer than the leaf has it stays as it
// is, because its bucket then gets new memory (unless gradient_as_bucket_view).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/buckets.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct GradientReducerOptions {
  BucketLimits limits = {};
  /// Parameters that get no gradient count as zero, at the cost of a walk over the graph and one
  /// small all-reduce a step. Without it they are a UsageError that names them.
  bool find_unused_parameters = false;
  /// The first step learns which parameters get gradients and how often; every later step must be
  /// like it. Costs nothing after the first step, whose reduction waits for the end of backward.
  bool static_graph = false;
  /// A gradient kept beyond its step is overwritten by a later one, instead of keeping its memory.
  bool gradient_as_bucket_view = false;
  /// Memory of a bucket: `numel` elements of `options`. Default: Communicator::empty, where buckets
  /// are reduced in place.
  std::function<at::Tensor(std::int64_t numel, const at::TensorOptions& options)> allocate =
      nullptr;
};

/// One backward, as a reducer needs to know it.
struct GradientPass {
  bool synchronize = true;  ///< false: gradients only accumulate locally.
  at::Tensor loss = {};     ///< The root of the graph; undefined when it is not known yet.
  bool shadow = false;      ///< This rank has no backward and takes part with zeros.
  bool several = false;     ///< Other reducers of the group may be in the same backward.
  bool in_finish = false;   ///< No bucket starts before flush().
};

class GradientReducer {
 public:
  /// Hooks the leaves among `parameters` that require gradients; tied ones once. Local: the caller
  /// has made sure that all ranks have the same parameters.
  GradientReducer(const std::vector<NamedTensor>& parameters,
                  std::shared_ptr<Communicator> communicator, GradientReducerOptions options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Called for each gradient before it is reduced, to throw when it should not be here (a forward
  /// that was not armed, a backward that was not begun).
  void set_guard(std::function<void(const std::string& parameter)> guard);

  /// Reduces by `hook` from the next step on, by a plain mean when it is empty; all ranks must
  /// register the same. Local.
  void set_comm_hook(CommHook hook);

  /// Whether a backward from `loss` accumulates into any parameter. Local.
  [[nodiscard]] bool is_reached_by(const at::Tensor& loss) const;
  /// Whether begin() and flush() are collective even when no gradient comes.
  [[nodiscard]] bool asks_every_time() const;

  /// Starts a step. [collective with find_unused_parameters, when it synchronises]
  void begin(const GradientPass& pass = {});

  /// Starts what backward has left. [collective, unless begin() said otherwise or no gradient came]
  /// Returns whether there is anything to wait for: the same on all ranks. Throws UsageError:
  /// unused parameters, a graph that is not static.
  bool flush();
  /// Waits for all buckets. Throws CommError.
  void wait();
  /// flush() and wait(). Returns what flush() returned, or whether local gradients came.
  bool finish();

  /// Ends a step that failed, and the group with it when the step synchronises: the ranks are no
  /// longer in step, and peers may be waiting for this one.
  void abandon(const std::string& reason) noexcept;

  /// Number of buckets and bytes of each, for tests and reports.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
