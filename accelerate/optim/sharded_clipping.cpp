#include "accelerate/optim/clipping.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>

#include "accelerate/base/file_error.h"

namespace accelerate::detail {
namespace {

// Combines norms of parts into the norm of the whole: p-th powers are added, or the extreme is
// taken.
class NormSum {
 public:
  explicit NormSum(double p) : p_(p), total_(std::isinf(p) && p < 0 ? INFINITY : 0.0) {}

  // Returns `norm` in the form in which parts are combined.
  [[nodiscard]] double term(double norm) const {
    return std::isinf(p_) || p_ == 0 ? norm : std::pow(norm, p_);
  }
  [[nodiscard]] ReduceOp op() const {
    if (!std::isinf(p_)) return ReduceOp::sum;
    return p_ > 0 ? ReduceOp::max : ReduceOp::min;
  }
  void add(double term) {
    if (!std::isinf(p_)) {
      total_ += term;
    } else {
      total_ = std::isnan(term) ? term : p_ > 0 ? std::max(total_, term) : std::min(total_, term);
    }
  }
  [[nodiscard]] double empty() const { return std::isinf(p_) && p_ < 0 ? INFINITY : 0.0; }
  [[nodiscard]] double norm() const {
    return std::isinf(p_) || p_ == 0 ? total_ : std::pow(total_, 1 / p_);
  }

 private:
  double p_;
  double total_;
};

// Gradients that every rank has whole may differ: gradients of ignored modules are not averaged.
double mean_over(Communicator& world, double term) {
  const at::Tensor shared = at::full({1}, term, at::kDouble);
  world.all_reduce(shared, ReduceOp::sum).wait();
  return shared.item<double>() / world.size();
}

double term_of(const GradientPart& part, const NormSum& sum, double norm_type,
               Communicator& world) {
  std::vector<at::Tensor> gradients;
  for (auto& gradient : gradients_of(part.holders)) {
    if (gradient.numel() > 0) gradients.push_back(std::move(gradient));
  }
  double term = sum.empty();
  if (!gradients.empty()) term = sum.term(get_total_norm(gradients, norm_type).item<double>());
  if (part.ranks == nullptr) return part.holders.empty() ? term : mean_over(world, term);
  // A max or min may drop NaN, but NaN must reach all ranks, so it is sent separately.
  const at::Tensor nan = at::full({1}, std::isnan(term) ? 1 : 0, at::kInt);
  const at::Tensor shared = at::full({1}, std::isnan(term) ? sum.empty() : term, at::kDouble);
  part.ranks->all_reduce(shared, sum.op()).wait();
  part.ranks->all_reduce(nan, ReduceOp::max).wait();
  return nan.item<int>() != 0 ? NAN : shared.item<double>();
}

// Returns fp64 if a holder is fp64, else fp32, so that ranks without a part of a gradient agree.
at::ScalarType norm_type_of(const std::vector<GradientPart>& parts) {
  for (const auto& part : parts) {
    for (const auto& holder : part.holders) {
      if (holder.scalar_type() == at::kDouble) return at::kDouble;
    }
  }
  return at::kFloat;
}

}  // namespace

GradientPart& part_over(std::vector<GradientPart>& parts, Communicator& ranks) {
  const auto found = std::ranges::find(parts, &ranks, &GradientPart::ranks);
  if (found != parts.end()) return *found;
  return parts.emplace_back(GradientPart{{}, &ranks});
}

at::Tensor clip_grad_norm_of_parts_(const std::vector<GradientPart>& parts, Communicator& world,
                                    double max_norm, double norm_type) {
  check_clip_bound("clip_grad_norm_", "max_norm", max_norm);
  const at::NoGradGuard no_grad;
  NormSum sum(norm_type);
  try {
    for (const auto& part : parts) sum.add(term_of(part, sum, norm_type, world));
    const at::Tensor total = at::scalar_tensor(sum.norm(), norm_type_of(parts));
    for (const auto& part : parts) clip_grads_with_norm_(part.holders, max_norm, total);
    return total;
  } catch (const FileError& error) {  // Gradients live on disk, and the other ranks would wait.
    for (const auto& part : parts) {
      if (part.ranks != nullptr) part.ranks->abort(describe(error));
    }
    world.abort(describe(error));
    throw;
  }
}

}  // namespace accelerate::detail
