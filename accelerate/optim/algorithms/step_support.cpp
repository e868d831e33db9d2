#include "accelerate/optim/algorithms/step_support.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <typeinfo>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

void refuse_sparse(const at::Tensor& parameter, const std::string& optimizer) {
  std::ostringstream shape;
  shape << parameter.sizes();
  throw UsageError("the gradient of a parameter of shape " + shape.str() + " is sparse; " +
                   optimizer +
                   " takes dense gradients only. Make the layer with sparse(false), or give its "
                   "parameters to an SGD or Adagrad of their own");
}

}  // namespace

at::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode gradients(true);
  return closure();
}

std::vector<at::Tensor> parameters_with_gradient(const torch::optim::OptimizerParamGroup& group,
                                                 const std::string& optimizer) {
  std::vector<at::Tensor> found;
  for (const auto& parameter : group.params()) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() != at::kStrided) refuse_sparse(parameter, optimizer);
    found.push_back(parameter);
  }
  return found;
}

std::vector<std::vector<at::Tensor>> runs_of(const std::vector<at::Tensor>& parameters) {
  constexpr std::int64_t kRunElements = 1 << 15;
  std::vector<std::vector<at::Tensor>> runs;
  std::int64_t elements = 0;
  for (const auto& parameter : parameters) {
    const bool fits = !parameter.is_cpu() || elements + parameter.numel() <= kRunElements;
    if (runs.empty() || !fits || runs.back().front().device() != parameter.device()) {
      runs.emplace_back();
      elements = 0;
    }
    runs.back().push_back(parameter);
    elements += parameter.numel();
  }
  return runs;
}

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

at::Tensor at_least_fp32(const at::Tensor& tensor) {
  return is_half(tensor) ? tensor.to(at::kFloat) : tensor;
}

void keep_options(const torch::optim::OptimizerParamGroup& given,
                  torch::optim::OptimizerParamGroup& own) {
  if (given.has_options()) own.set_options(given.options().clone());
}

at::Tensor exact_factor(double value) {
  return at::native::wrapped_scalar_tensor(value);
}

void require_not_negative(const std::string& optimizer, const std::string& option, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    refuse_option(optimizer, option, value, "a number of 0 or more");
}

void require_fraction(const std::string& optimizer, const std::string& option, double value) {
  if (!(value >= 0 && value < 1))
    refuse_option(optimizer, option, value, "0 or more and less than 1");
}

void refuse_option(const std::string& optimizer, const std::string& option, double value,
                   const std::string& allowed) {
  std::ostringstream text;
  text << "the option " << option << " of " << optimizer << " is " << value << "; allowed is "
       << allowed;
  throw ConfigError(text.str());
}

void refuse_options_class(const std::string& optimizer,
                          const torch::optim::OptimizerOptions& options) {
  throw UsageError("a parameter group of " + optimizer + " has options of the class " +
                   c10::demangle(typeid(options).name()) + "; give it " + optimizer +
                   "Options, or none to take the optimizer's");
}

}  // namespace accelerate::detail
