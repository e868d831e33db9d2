#include "accelerate/parallel/gradients/power_sgd.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "accelerate/parallel/gradients/comm_hook.h"
#include "accelerate/parallel/gradients/power_sgd_impl.h"

namespace accelerate {
namespace {

using detail::LowRankMemory;
using detail::PowerSGDState;

// Matrices of one shape [rows, columns], and their factors.
struct MatrixGroup {
  std::vector<at::Tensor> originals;  // views of the bucket
  at::Tensor batch{};                 // [matrices, rows, columns]
  at::Tensor p{}, q{};                // [matrices, rows | columns, rank], views of the memory
};

// A bucket whose reduction is under way.
struct Compression {
  std::vector<MatrixGroup> groups;
  std::vector<at::Tensor> plain;  // gradients that are not worth compressing
  at::Tensor plain_flat;
  at::Tensor wanted;  // gradients plus what the last step lost
  Work plain_work, p_work;
};

// Returns a gradient of any shape as a matrix: its first dimension by all others.
at::Tensor as_matrix(const at::Tensor& gradient) {
  const auto rows = gradient.size(0);
  if (gradient.is_contiguous()) return gradient.view({rows, -1});
  // Another dense layout (channels_last): elements in the order of memory, where a row stays a row.
  return gradient.as_strided({rows, gradient.numel() / rows}, {gradient.numel() / rows, 1});
}

bool rows_are_contiguous(const at::Tensor& gradient) {
  return gradient.dim() > 0 && gradient.numel() > 0 &&
         (gradient.is_contiguous() || gradient.stride(0) == gradient.numel() / gradient.size(0));
}

class PowerSGD {
 public:
  explicit PowerSGD(const PowerSGDOptions& options) : state_(options) {}

  Work start(Communicator& group, GradientBucket& bucket) {
    if (!state_.compresses(bucket) || bucket.buffer.is_complex()) return plain_(group, bucket);
    auto& memory = state_.memory(bucket);
    auto work = std::make_shared<Compression>();
    work->wanted = state_.add_error(memory, bucket.buffer);
    sort_gradients(bucket, *work);
    state_.report(bucket);
    prepare_factors(memory, *work, bucket.buffer.options());
    for (auto& part : work->groups) at::bmm_out(part.p, part.batch, part.q);
    work->plain_work = group.all_reduce(work->plain_flat, ReduceOp::sum);
    work->p_work = group.all_reduce(memory.p, ReduceOp::sum);
    return followed_by(work->p_work, [this, work, &memory, &group, &bucket] {
      end(*work, memory, group, bucket);
    });
  }

 private:
  std::int64_t rank_of(const at::Tensor& matrix) const {
    return std::min({matrix.size(0), matrix.size(1), state_.options().matrix_approximation_rank});
  }

  bool is_worth_it(const at::Tensor& matrix) {
    const auto whole = matrix.numel();
    const auto factors = (matrix.size(0) + matrix.size(1)) * rank_of(matrix);
    const bool worth = static_cast<double>(factors) * state_.options().min_compression_rate <
                       static_cast<double>(whole);
    state_.count(whole, worth ? factors : whole);
    return worth;
  }

  void sort_gradients(const GradientBucket& bucket, Compression& work) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> group_of;
    std::vector<at::Tensor> flat;
    for (const auto& gradient : bucket.gradients) {
      if (!rows_are_contiguous(gradient) || !is_worth_it(as_matrix(gradient))) {
        work.plain.push_back(gradient);
        flat.push_back(gradient.reshape({-1}));
        continue;
      }
      const auto matrix = as_matrix(gradient);
      const auto [found, is_new] =
          group_of.try_emplace({matrix.size(0), matrix.size(1)}, work.groups.size());
      if (is_new) work.groups.emplace_back();
      work.groups[found->second].originals.push_back(matrix);
    }
    work.plain_flat = flat.empty() ? at::empty({0}, bucket.buffer.options()) : at::cat(flat);
    if (!state_.options().batch_tensors_with_same_shape) separate(work.groups);
    for (auto& group : work.groups) {
      group.batch = group.originals.size() == 1 ? group.originals[0].unsqueeze(0)
                                                : at::stack(group.originals);
    }
  }

  // Splits the groups into one matrix each, still in the order of the shapes.
  static void separate(std::vector<MatrixGroup>& groups) {
    std::vector<MatrixGroup> single;
    for (auto& group : groups) {
      for (auto& matrix : group.originals) single.push_back({.originals = {matrix}});
    }
    groups = std::move(single);
  }

  void prepare_factors(LowRankMemory& memory, Compression& work,
                       const at::TensorOptions& tensor_options) {
    const bool renew = state_.needs_new_factors(memory);
    if (renew) {
      const auto [p, q] = sizes(work.groups);
      memory.p = at::empty({p}, tensor_options);
      memory.q = at::empty({q}, tensor_options);
    }
    view_factors(memory, work.groups);
    if (renew) {
      auto random = state_.new_random_numbers();
      for (auto& group : work.groups) random.fill(group.q);
    }
    for (auto& group : work.groups) orthogonalize(group.q);
  }

  std::pair<std::int64_t, std::int64_t> sizes(const std::vector<MatrixGroup>& groups) const {
    std::int64_t p = 0, q = 0;
    for (const auto& group : groups) {
      const auto columns = group.batch.size(0) * rank_of(group.originals[0]);
      p += columns * group.batch.size(1);
      q += columns * group.batch.size(2);
    }
    return {p, q};
  }

  void view_factors(const LowRankMemory& memory, std::vector<MatrixGroup>& groups) const {
    std::int64_t p = 0, q = 0;
    for (auto& group : groups) {
      const auto rank = rank_of(group.originals[0]);
      const auto count = group.batch.size(0), rows = group.batch.size(1),
                 columns = group.batch.size(2);
      group.p = memory.p.narrow(0, p, count * rows * rank).view({count, rows, rank});
      group.q = memory.q.narrow(0, q, count * columns * rank).view({count, columns, rank});
      p += group.p.numel();
      q += group.q.numel();
    }
  }

  void orthogonalize(const at::Tensor& factors) const {
    detail::orthogonalize(factors, state_.options().orthogonalization_epsilon);
  }

  void end(Compression& work, LowRankMemory& memory, Communicator& group, GradientBucket& bucket) {
    work.plain_work.wait();
    spread_plain(work, group.size());
    for (auto& part : work.groups) {
      orthogonalize(part.p);
      at::bmm_out(part.q, part.batch.transpose(1, 2), part.p);
    }
    group.all_reduce(memory.q, ReduceOp::sum).wait();
    memory.q.div_(group.size());
    for (auto& part : work.groups) decompress(part);
    state_.remember_error(memory, work.wanted, bucket.buffer);
  }

  static void spread_plain(Compression& work, int size) {
    work.plain_flat.div_(size);
    std::int64_t offset = 0;
    for (auto& gradient : work.plain) {
      gradient.copy_(work.plain_flat.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
      offset += gradient.numel();
    }
  }

  static void decompress(MatrixGroup& group) {
    at::bmm_out(group.batch, group.p, group.q.transpose(1, 2));
    if (group.originals.size() == 1) return;  // the batch is the matrix itself
    for (std::size_t i = 0; i < group.originals.size(); ++i) {
      group.originals[i].copy_(group.batch[static_cast<std::int64_t>(i)]);
    }
  }

  PowerSGDState state_;
  CommHook plain_ = all_reduce_hook();
};

}  // namespace

CommHook power_sgd_hook(const PowerSGDOptions& options) {
  return [hook = std::make_shared<PowerSGD>(options)](Communicator& group, GradientBucket& bucket) {
    return hook->start(group, bucket);
  };
}

}  // namespace accelerate
