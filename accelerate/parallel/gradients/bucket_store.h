// The parameters of a reducer, and the memory in which their gradients lie side by side.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

// How gradients are packed for communication.

struct BucketLimits {
  std::int64_t first_bytes = std::int64_t{1} << 20;  ///< Small, so that communication starts early.
  std::int64_t cap_bytes = std::int64_t{25} << 20;   ///< Limit of every further bucket.
};

/// Returns groups of indices into `parameters`, one per bucket, in the order in which buckets are
/// reduced. Parameters are taken last to first, which is roughly the order in which backward
/// reaches them. A bucket holds one dtype and device, and is closed by the parameter with which it
/// reaches its limit. The groups depend on the parameters alone, so that all ranks agree and a
/// resumed run packs as the first run did.
[[nodiscard]] std::vector<std::vector<std::size_t>> assign_buckets(
    const std::vector<at::Tensor>& parameters, const BucketLimits& limits);

}  // namespace accelerate

namespace accelerate::detail {

/// A parameter and its place in a bucket.
struct Slot {
  std::string name;
  at::Tensor parameter;
  std::size_t bucket = 0;
  std::int64_t offset = 0;
  at::Tensor place{};     ///< Its part of the bucket; defined when the bucket has memory.
  int accumulations = 0;  ///< How often its gradient came in this step.
  int expected = 1;       ///< How often its gradient comes in a complete step.
  bool reached = true;    ///< Its gradient comes in this step, as far as is known.
  bool taken = false;     ///< Its gradient, or a substitute, lies in `place`.
  bool touched = false;   ///< Its gradient came since the last synchronisation.
};

struct Bucket {
  std::vector<std::size_t> slots;
  std::int64_t numel = 0;
  GradientBucket content{};  ///< Empty until the bucket has memory.
  std::size_t missing = 0;   ///< Gradients that are still to come.
  bool ready = false;        ///< Its memory may be written in this step.
  bool skipped = false;      ///< No rank has a gradient for it in this step.
  Work work{};
  std::size_t owners = 0;  ///< References to the memory that the store holds.
};

struct BucketStoreOptions {
  BucketLimits limits = {};
  bool gradient_as_bucket_view = false;
  std::function<at::Tensor(std::int64_t numel, const at::TensorOptions& options)> allocate;
};

class BucketStore {
 public:
  BucketStore(const std::vector<NamedTensor>& trainable, BucketStoreOptions options);

  std::vector<Slot> slots;
  std::vector<Bucket> buckets;

  /// Makes sure that the bucket has memory that may be overwritten: its own, or fresh memory when
  /// the program has kept a gradient in it.
  void ready_memory(Bucket& bucket);

  /// Gives the bucket new memory when it has none, or when a leaf's grad lies in it.
  void leave_gradients_alone(Bucket& bucket);

 private:
  void renew_memory(Bucket& bucket);
  [[nodiscard]] bool is_kept_by_program(const Bucket& bucket) const;

  BucketStoreOptions options_;
};

}  // namespace accelerate::detail
