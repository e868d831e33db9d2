#include "accelerate/optim/algorithms/muon_with_aux_adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/optim/algorithms/algorithm_impl.h"

namespace accelerate {
namespace {

using detail::exact_factor;

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // X -> a X + b (X Xᵀ) X + c (X Xᵀ)² X
constexpr double kLeastNorm = 1e-7;
constexpr int kIterations = 5;
constexpr int kBeginsAnew = 2;  // The iteration of "gram" that begins from X again.

void require_matrices_of_muon(const torch::optim::OptimizerParamGroup& group) {
  if (!static_cast<const MuonWithAuxAdamOptions&>(group.options()).use_muon()) return;
  for (const auto& parameter : group.params()) {
    if (parameter.dim() >= 2 && !parameter.is_complex()) continue;
    std::ostringstream text;
    text << "a group with use_muon has a parameter of shape " << parameter.sizes() << " and type "
         << c10::toString(parameter.scalar_type())
         << ", but Muon steps real tensors of two and more dimensions. Put it into a group without "
            "use_muon";
    throw UsageError(text.str());
  }
}

// --- Newton–Schulz. Operators and their order are DeepSpeed's, so that results agree in every bit.

at::Tensor scaled(const at::Tensor& tensor, double factor) {
  return at::mul(tensor, exact_factor(factor));
}

// Returns b R + c R R.
at::Tensor polynomial_of(const at::Tensor& gram) {
  return at::add(scaled(gram, kB), at::matmul(scaled(gram, kC), gram));
}

at::Tensor iterated(at::Tensor x) {
  for (int i = 0; i < kIterations; ++i)
    x = at::add(scaled(x, kA), at::matmul(polynomial_of(at::matmul(x, x.mT())), x));
  return x;
}

at::Tensor norm_of(const at::Tensor& x) {
  return at::add(at::linalg_vector_norm(x, 2, at::IntArrayRef{-2, -1}, /*keepdim=*/true),
                 exact_factor(kLeastNorm));
}

// As iterated(x) of {…, n, m} with n < m. The factors of x gather in a matrix {…, n, n}.
at::Tensor iterated_by_gram(at::Tensor x) {
  at::Tensor gram = at::matmul(x, x.mT()), factors;
  for (int i = 0; i < kIterations; ++i) {
    if (i == kBeginsAnew) {
      x = at::matmul(factors, x);
      gram = at::matmul(x, x.mT());
      factors = at::Tensor();
    }
    const at::Tensor change = polynomial_of(gram);
    if (factors.defined()) {
      factors = at::add(scaled(factors, kA), at::matmul(change, factors));
    } else {
      factors = change.clone();
      factors.diagonal(0, -2, -1).add_(exact_factor(kA));
    }
    if (i == kIterations - 1 || i + 1 == kBeginsAnew) continue;
    const at::Tensor half = at::add(scaled(gram, kA), at::matmul(change, gram));
    gram = at::add(scaled(half, kA), at::matmul(change, half));
  }
  return at::matmul(factors, x);
}

at::Tensor by_gram(const at::Tensor& matrix) {
  const bool is_high = matrix.size(-2) > matrix.size(-1);
  at::Tensor x = matrix.scalar_type() == at::kHalf ? matrix.to(at::kFloat) : matrix;
  if (is_high) x = x.mT();
  x = x.div(norm_of(x)).to(at::kHalf);
  x = x.size(-1) <= x.size(-2) ? iterated(x) : iterated_by_gram(x);
  return is_high ? x.mT() : x;
}

at::Tensor by_standard(const at::Tensor& matrix) {
  const bool is_high = matrix.size(-2) > matrix.size(-1);
  at::Tensor x = matrix.to(at::kBFloat16);
  if (is_high) x = x.mT();
  x = iterated(x.div(norm_of(x)));
  return is_high ? x.mT() : x;
}

at::Tensor update_of(const at::Tensor& direction, const MuonWithAuxAdamOptions& options) {
  const at::Tensor matrix =
      direction.dim() == 4 ? direction.reshape({direction.size(0), -1}) : direction;
  const at::Tensor update = options.ns_method() == "gram" ? by_gram(matrix) : by_standard(matrix);
  const auto rows = static_cast<double>(direction.size(-2));
  const auto columns = static_cast<double>(direction.size(-1));
  const double factor = rows > columns ? std::sqrt(rows / columns) : 1.0;
  return scaled(update, factor).to(direction.scalar_type()).reshape(direction.sizes());
}

// --- Steps ---------------------------------------------------------------------------------------

// Averages the gradient in. Returns what the update is computed from.
at::Tensor direction_of(MuonWithAuxAdamParamState& state, const at::Tensor& gradient,
                        double momentum) {
  if (!state.momentum_buffer().defined()) state.momentum_buffer(at::zeros_like(gradient));
  state.momentum_buffer().lerp_(gradient, 1 - momentum);
  return gradient.lerp(state.momentum_buffer(), momentum);
}

void apply_update(const at::Tensor& parameter, const MuonWithAuxAdamOptions& options) {
  parameter.mul_(exact_factor(1 - options.lr() * options.weight_decay()));
  parameter.add_(parameter.grad(), -options.lr());
}

void step_by_adam(const at::Tensor& parameter, MuonWithAuxAdamParamState& state,
                  const MuonWithAuxAdamOptions& options) {
  const auto [beta1, beta2] = options.betas();
  at::Tensor gradient = detail::at_least_fp32(parameter.grad());
  const at::Tensor value = detail::at_least_fp32(parameter);
  if (!options.adam_w_mode()) gradient = gradient.add(value, options.weight_decay());
  if (!state.exp_avg().defined()) {
    state.exp_avg(at::zeros_like(gradient));
    state.exp_avg_sq(at::zeros_like(gradient));
  }
  state.step(state.step() + 1);
  const auto steps = static_cast<double>(state.step());
  state.exp_avg().lerp_(gradient, 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const at::Tensor denominator =
      state.exp_avg_sq().sqrt().div_(std::sqrt(1 - std::pow(beta2, steps))).add_(options.eps());
  if (options.adam_w_mode()) value.mul_(1 - options.lr() * options.weight_decay());
  value.addcdiv_(state.exp_avg(), denominator, -options.lr() / (1 - std::pow(beta1, steps)));
  if (detail::is_half(parameter)) parameter.copy_(value);
}

}  // namespace

MuonWithAuxAdamOptions::MuonWithAuxAdamOptions(bool use_muon) : use_muon_(use_muon) {
  if (!use_muon) lr_ = 3e-4;
}

void MuonWithAuxAdamOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
  detail::require_not_negative(kOptimizer, "momentum", momentum());
  detail::require_fraction(kOptimizer, "betas[0]", std::get<0>(betas()));
  detail::require_fraction(kOptimizer, "betas[1]", std::get<1>(betas()));
  detail::require_not_negative(kOptimizer, "eps", eps());
  if (ns_method() == "gram" || ns_method() == "standard") return;
  throw ConfigError("the option ns_method of MuonWithAuxAdam is '" + ns_method() +
                    "'; allowed is 'gram' or 'standard'");
}

template struct AlgorithmOptions<MuonWithAuxAdamOptions>;
template struct AlgorithmParamState<MuonWithAuxAdamParamState>;
template class Algorithm<MuonWithAuxAdamOptions, MuonWithAuxAdamParamState>;

MuonWithAuxAdam::MuonWithAuxAdam(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                                 MuonWithAuxAdamOptions defaults)
    : Algorithm(param_groups, std::move(defaults)) {
  for (const auto& group : this->param_groups()) require_matrices_of_muon(group);
}

MuonWithAuxAdam::MuonWithAuxAdam(std::vector<at::Tensor> params, MuonWithAuxAdamOptions defaults)
    : MuonWithAuxAdam({torch::optim::OptimizerParamGroup(std::move(params))}, std::move(defaults)) {
}

void MuonWithAuxAdam::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::OptimizerParamGroup added = group;
  if (!added.has_options()) added.set_options(defaults().clone());
  (void)options_of(added);  // Refuses options of another class.
  require_matrices_of_muon(added);
  Algorithm::add_param_group(added);
}

void MuonWithAuxAdam::take_updates() {
  if (std::exchange(has_updates_, true)) return;
  const at::NoGradGuard no_grad;
  for (auto& group : param_groups_) {
    const MuonWithAuxAdamOptions& options = options_of(group);
    options.check();  // A checkpoint may have brought other ones.
    for (auto& parameter : group.params())
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    const auto parameters =
        detail::parameters_with_gradient(group, MuonWithAuxAdamOptions::kOptimizer);
    if (!options.use_muon()) continue;
    step_matrices(parameters,
                  {.prepare =
                       [&](const at::Tensor& parameter) {
                         return direction_of(state_of(parameter), parameter.grad(),
                                             options.momentum());
                       },
                   .compute = [&](const at::Tensor& whole) { return update_of(whole, options); },
                   .apply = [](const at::Tensor& parameter,
                               const at::Tensor& update) { parameter.grad().copy_(update); }});
  }
}

at::Tensor MuonWithAuxAdam::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  if (closure) forget_updates();
  const at::Tensor loss = detail::loss_of(closure);
  take_updates();
  forget_updates();
  for (auto& group : param_groups_) {
    const MuonWithAuxAdamOptions& options = options_of(group);
    for (const auto& parameter : group.params()) {
      options.use_muon() ? apply_update(parameter, options)
                         : step_by_adam(parameter, state_of(parameter), options);
    }
  }
  return loss;
}

}  // namespace accelerate
