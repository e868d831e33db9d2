// The parameters of a reducer, and the memory in which their gradients lie side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/buckets.h"
#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// A parameter and its place in a bucket.
struct Slot {
  std::string name;
  at::Tensor parameter;
  std::size_t bucket = 0;
  std::int64_t offset = 0;
  at::Tensor place{};     ///< Its part of the bucket; defined when the bucket has memory.
  int accumulations = 0;  ///< How often its gradient came in this step.
  int expected = 1;       ///< How often it comes before it is complete.
  bool reached = true;    ///< It comes at all, as far as is known.
  bool taken = false;     ///< Its gradient, or what stands for it, lies in its place.
  bool touched = false;   ///< It came since gradients were last synchronised.
};

struct Bucket {
  std::vector<std::size_t> slots;
  std::int64_t numel = 0;
  GradientBucket content{};  ///< Empty until the bucket has memory.
  std::size_t missing = 0;   ///< Gradients that are to come and have not.
  bool ready = false;        ///< Its memory may be written in this step.
  bool skipped = false;      ///< No rank has a gradient for it in this step.
  Work work{};
  std::size_t owners = 0;  ///< References to the memory that are ours.
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
  /// the program has kept a gradient that lies in it.
  void ready_memory(Bucket& bucket);

  /// Gives the bucket other memory when a leaf's grad lies in it.
  void leave_gradients_alone(Bucket& bucket);

 private:
  void renew_memory(Bucket& bucket);
  [[nodiscard]] bool is_kept_by_program(const Bucket& bucket) const;

  BucketStoreOptions options_;
};

}  // namespace accelerate::detail
