#include "accelerate/optim/algorithms/muon.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/optim/algorithms/algorithm_impl.h"

namespace accelerate {
namespace {

constexpr const char* kMuonName = "Muon";
constexpr std::int64_t kMostSteps = 99;

void require_matrix(const at::Tensor& parameter, const std::vector<std::int64_t>& shape) {
  if (shape.size() == 2 && !parameter.is_complex()) return;
  std::ostringstream text;
  text << "Muon updates real matrices only; a parameter has the shape " << at::IntArrayRef(shape)
       << " and the type " << c10::toString(parameter.scalar_type())
       << ". Give parameters of other shapes, such as biases and norms, to an optimizer of their "
          "own, such as AdamW";
  throw UsageError(text.str());
}

void require_matrices(const torch::optim::OptimizerParamGroup& group) {
  for (const auto& parameter : group.params()) require_matrix(parameter, parameter.sizes().vec());
}

// Returns by what a matrix of `shape` multiplies the rate.
double rate_factor(const MuonOptions& options, const std::vector<std::int64_t>& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  if (options.adjust_lr_fn() == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// Averages the gradient in. Returns what the direction of the step is computed from, in bf16.
at::Tensor momentum_of(MuonParamState& state, const at::Tensor& gradient,
                       const MuonOptions& options) {
  if (!state.momentum_buffer().defined()) state.momentum_buffer(at::zeros_like(gradient));
  const at::Tensor& average = state.momentum_buffer();
  average.lerp_(gradient, 1 - options.momentum());
  const at::Tensor ahead =
      options.nesterov() ? at::lerp(gradient, average, options.momentum()) : average;
  return ahead.to(at::kBFloat16);
}

// Returns bf16 `matrix`, {m, n}, with singular values near 1. Operators and their order are those
// of torch.optim.Muon, so that results agree in every bit.
at::Tensor orthogonalized(const at::Tensor& matrix, const MuonOptions& options) {
  const auto [a, b, c] = options.ns_coefficients();
  const bool is_high = matrix.size(0) > matrix.size(1);
  at::Tensor x = is_high ? matrix.t() : matrix;
  // Into new memory: without nesterov `matrix` may be the average itself.
  x = at::div(x, at::clamp(at::linalg_vector_norm(x, 2), options.eps()));
  // Iterations take turns in two results: new memory for each would cost page faults.
  at::Tensor gram = at::empty({x.size(0), x.size(0)}, x.options()),
             polynomial = at::empty_like(gram);
  std::array<at::Tensor, 2> results;
  for (std::int64_t i = 0; i < options.ns_steps(); ++i) {
    at::Tensor& result = results[static_cast<std::size_t>(i % 2)];
    if (!result.defined()) result = at::empty(x.sizes(), x.options());
    at::mm_out(gram, x, x.t());
    at::addmm_out(polynomial, gram, gram, gram, b, c);
    at::addmm_out(result, x, polynomial, x, a);
    x = result;
  }
  return is_high ? x.t() : x;
}

}  // namespace

MuonOptions::MuonOptions(double lr) : lr_(lr) {}

void MuonOptions::check() const {
  detail::require_not_negative(kMuonName, "lr", lr());
  detail::require_not_negative(kMuonName, "weight_decay", weight_decay());
  detail::require_not_negative(kMuonName, "momentum", momentum());
  detail::require_not_negative(kMuonName, "eps", eps());
  if (ns_steps() < 0 || ns_steps() > kMostSteps)
    detail::refuse_option(kMuonName, "ns_steps", static_cast<double>(ns_steps()), "0 to 99");
  const std::string adjust = adjust_lr_fn().value_or("original");
  if (adjust == "original" || adjust == "match_rms_adamw") return;
  throw ConfigError("the option adjust_lr_fn of Muon is '" + adjust +
                    "'; allowed is 'original', 'match_rms_adamw', or none, which means 'original'");
}

template struct AlgorithmOptions<MuonOptions>;
template struct AlgorithmParamState<MuonParamState>;
template class Algorithm<MuonOptions, MuonParamState>;

Muon::Muon(const std::vector<torch::optim::OptimizerParamGroup>& param_groups, MuonOptions defaults)
    : Algorithm(param_groups, std::move(defaults)) {
  for (const auto& group : this->param_groups()) require_matrices(group);
}

Muon::Muon(std::vector<at::Tensor> params, MuonOptions defaults)
    : Muon({torch::optim::OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}

void Muon::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  require_matrices(group);
  Algorithm::add_param_group(group);
}

at::Tensor Muon::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = detail::loss_of(closure);
  for (auto& group : param_groups_) {
    const MuonOptions& options = options_of(group);
    options.check();  // A checkpoint may have brought other ones.
    const auto parameters = detail::parameters_with_gradient(group, kMuonName);
    for (const auto& parameter : parameters) require_matrix(parameter, shape_of(parameter));
    step_matrices(
        parameters,
        {.prepare =
             [&](const at::Tensor& parameter) {
               return momentum_of(state_of(parameter), parameter.grad(), options);
             },
         .compute = [&](const at::Tensor& matrix) { return orthogonalized(matrix, options); },
         .apply =
             [&](const at::Tensor& parameter, const at::Tensor& direction) {
               const double rate = options.lr() * rate_factor(options, shape_of(parameter));
               parameter.mul_(detail::exact_factor(1 - options.lr() * options.weight_decay()));
               parameter.add_(direction, -rate);
             }});
  }
  return loss;
}

}  // namespace accelerate
