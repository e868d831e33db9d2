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
// are the user's. They lie in the buckets: a tensor kept from an earlier step is overwritten by a
// later one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/buckets.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct GradientReducerOptions {
  BucketLimits limits = {};
  /// Parameters that get no gradient count as zero, at the cost of one more small all-reduce a
  /// step. Without it they are a UsageError that names them.
  bool find_unused_parameters = false;
  /// Memory of a bucket: `numel` elements of `options`. Default: LibTorch's allocator.
  std::function<at::Tensor(std::int64_t numel, const at::TensorOptions& options)> allocate =
      nullptr;
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

  /// Starts a step. With `synchronize` false gradients only accumulate locally.
  void begin(bool synchronize);

  /// Whether a gradient has come since begin(): the same on all ranks once their backwards are
  /// over.
  [[nodiscard]] bool gradients_came() const;

  /// Waits for all buckets. [collective, unless begin(false) or no gradient came] Returns whether
  /// any gradient came. Throws UsageError (unused parameters) or CommError.
  bool finish();

  /// Ends a step whose backward threw; tells the peers when they may already be waiting.
  void abandon(const std::string& reason) noexcept;

  /// Number of buckets and bytes of each, for tests and reports.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
