#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/gradients/power_sgd.h"
#include "accelerate/parallel/gradients/power_sgd_impl.h"

namespace accelerate {
namespace {

using detail::LowRankMemory;
using detail::PowerSGDState;

class BatchedPowerSGD {
 public:
  explicit BatchedPowerSGD(const PowerSGDOptions& options) : state_(options) {}

  Work start(Communicator& group, GradientBucket& bucket) {
    if (!state_.compresses(bucket) || bucket.buffer.is_complex()) return plain_(group, bucket);
    const auto side = side_of(bucket.buffer.numel());
    const auto rank = std::min(side, state_.options().matrix_approximation_rank);
    state_.count(bucket.buffer.numel(), 2 * side * rank);
    state_.report(bucket);
    auto& memory = state_.memory(bucket);
    const auto matrix = square(bucket.buffer, side);
    const auto wanted = state_.add_error(memory, matrix);
    prepare_factors(memory, {side, rank}, matrix.options());
    at::matmul_out(memory.p, matrix, memory.q);
    return followed_by(group.all_reduce(memory.p, ReduceOp::sum),
                       [this, matrix, wanted, &memory, &group, &bucket] {
                         end(matrix, memory, group);
                         state_.remember_error(memory, wanted, matrix);
                         const auto numel = bucket.buffer.numel();
                         bucket.buffer.copy_(matrix.view({-1}).narrow(0, 0, numel));
                       });
  }

 private:
  static std::int64_t side_of(std::int64_t numel) {
    auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(numel))));
    while (side * side < numel) ++side;
    return side;
  }

  // Returns the gradients as a square matrix, padded with zeros.
  static at::Tensor square(const at::Tensor& flat, std::int64_t side) {
    auto matrix = at::zeros({side, side}, flat.options());
    matrix.view({-1}).narrow(0, 0, flat.numel()).copy_(flat);
    return matrix;
  }

  void prepare_factors(LowRankMemory& memory, at::IntArrayRef shape,
                       const at::TensorOptions& tensor_options) {
    if (state_.needs_new_factors(memory)) {
      memory.p = at::empty(shape, tensor_options);
      memory.q = at::empty(shape, tensor_options);
      state_.new_random_numbers().fill(memory.q);
    }
    orthogonalize(memory.q);
  }

  void orthogonalize(const at::Tensor& factor) const {
    detail::orthogonalize(factor.unsqueeze(0), state_.options().orthogonalization_epsilon);
  }

  void end(at::Tensor matrix, LowRankMemory& memory, Communicator& group) const {
    orthogonalize(memory.p);
    at::matmul_out(memory.q, matrix.t(), memory.p);
    group.all_reduce(memory.q, ReduceOp::sum).wait();
    memory.q.div_(group.size());
    at::matmul_out(matrix, memory.p, memory.q.t());
  }

  PowerSGDState state_;
  CommHook plain_ = all_reduce_hook();
};

}  // namespace

CommHook batched_power_sgd_hook(const PowerSGDOptions& options) {
  return [hook = std::make_shared<BatchedPowerSGD>(options)](
             Communicator& group, GradientBucket& bucket) { return hook->start(group, bucket); };
}

}  // namespace accelerate
