#include "accelerate/parallel/replicated/sync_batch_norm.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/batchnorm.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicable_tensors.h"

namespace accelerate {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Statistics of the samples of all ranks; each [C], in computing_type(x).
struct Statistics {
  at::Tensor mean, inverse_deviation, unbiased_variance;
  double count = 0;  // values per channel, on all ranks
};

std::vector<std::int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}

// Reshapes [C] to [1, C, 1, …], so that it broadcasts against x.
at::Tensor beside(const at::Tensor& channels, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = channels.numel();
  return channels.view(shape);
}

at::ScalarType computing_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Returns {mean, sum of squared deviations, count} of this rank: [2C + 1] doubles.
at::Tensor own_moments(const at::Tensor& x) {
  const auto channels = x.size(1);
  const auto moments = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  const auto count = x.numel() / std::max<std::int64_t>(channels, 1);
  if (count == 0) return moments;
  const auto [variance, mean] =
      at::var_mean(x.to(computing_type(x)), all_but_channels(x), at::Scalar(0), /*keepdim=*/false);
  moments.narrow(0, 0, channels).copy_(mean);
  moments.narrow(0, channels, channels).copy_(variance).mul_(count);
  moments.narrow(0, 2 * channels, 1).fill_(count);
  return moments;
}

// Moments of parts combine exactly: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise
// Algorithm for Computing Sample Variances", 1979.
Statistics combine(const at::Tensor& moments, double eps, at::ScalarType type) {
  const auto channels = (moments.size(1) - 1) / 2;
  const auto means = moments.narrow(1, 0, channels);
  const auto squares = moments.narrow(1, channels, channels);
  const auto counts = moments.narrow(1, 2 * channels, 1);
  Statistics all;
  all.count = counts.sum().item<double>();
  if (all.count < 2) {
    throw UsageError(
        "SyncBatchNorm needs at least 2 values a channel in training, and all ranks "
        "together have " +
        std::to_string(static_cast<std::int64_t>(all.count)) + ". Use larger batches, or eval().");
  }
  const auto mean = (means * counts).sum(0) / all.count;
  const auto square = (squares + counts * (means - mean).square()).sum(0);
  all.mean = mean.to(type);
  all.inverse_deviation = (square / all.count + eps).rsqrt().to(type);
  all.unbiased_variance = (square / (all.count - 1)).to(type);
  return all;
}

Statistics gather_statistics(const at::Tensor& x, double eps, Communicator& group) {
  const at::NoGradGuard no_grad;
  const auto mine = own_moments(x);
  const auto all = at::empty({group.size(), mine.numel()}, mine.options());
  group.all_gather(all, mine).wait();
  return combine(all, eps, computing_type(x));
}

// Carries the group from forward to backward.
struct GroupHolder final : torch::CustomClassHolder {
  explicit GroupHolder(std::shared_ptr<Communicator> communicator)
      : group(std::move(communicator)) {}
  std::shared_ptr<Communicator> group;
};

struct Normalise : torch::autograd::Function<Normalise> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const Statistics& all,
                            const std::shared_ptr<Communicator>& group) {
    context->save_for_backward({x, weight.value_or(at::Tensor()), all.mean, all.inverse_deviation});
    context->saved_data["count"] = all.count;
    context->saved_data["group"] =
        c10::IValue::make_capsule(c10::make_intrusive<GroupHolder>(group));
    auto y = standardised(x, all.mean, all.inverse_deviation);
    if (weight) y = y * beside(*weight, x).to(y.scalar_type());
    if (bias) y = y + beside(*bias, x).to(y.scalar_type());
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &deviation = saved[3];
    const auto x_hat = standardised(x, saved[2], deviation);
    const auto dy = outputs[0].to(x_hat.scalar_type());
    const auto dims = all_but_channels(x);
    const auto sum_dy = dy.sum(dims), sum_dy_x_hat = (dy * x_hat).sum(dims);
    variable_list gradients(5);
    if (weight.defined()) {
      gradients[1] = sum_dy_x_hat.to(weight.scalar_type());
      gradients[2] = sum_dy.to(weight.scalar_type());
    }
    if (!context->needs_input_grad(0)) return gradients;
    const auto sums = at::cat({sum_dy, sum_dy_x_hat});
    group_of(context)->all_reduce(sums, ReduceOp::sum).wait();
    const auto means = (sums / context->saved_data["count"].toDouble()).chunk(2);
    auto scale = deviation;
    if (weight.defined()) scale = scale * weight.to(scale.scalar_type());
    gradients[0] = ((dy - beside(means[0], x) - x_hat * beside(means[1], x)) * beside(scale, x))
                       .to(x.scalar_type());
    return gradients;
  }

 private:
  static at::Tensor standardised(const at::Tensor& x, const at::Tensor& mean,
                                 const at::Tensor& inverse_deviation) {
    return (x.to(mean.scalar_type()) - beside(mean, x)) * beside(inverse_deviation, x);
  }

  static std::shared_ptr<Communicator> group_of(AutogradContext* context) {
    const auto capsule = context->saved_data["group"].toCapsule();
    return static_cast<GroupHolder*>(capsule.get())->group;
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options)
    : NormImplBase(options) {}

void SyncBatchNormImpl::adopt(const State& state) {
  if (options.affine()) {
    parameters_["weight"] = weight = state.weight;
    parameters_["bias"] = bias = state.bias;
  }
  if (options.track_running_stats()) {
    // Registered buffers cannot be exchanged, but their data can.
    running_mean.set_data(state.running_mean);
    running_var.set_data(state.running_var);
    num_batches_tracked.set_data(state.num_batches_tracked);
  }
}

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& input) {
  if (input.dim() >= 2 && input.dim() <= 5 && input.size(1) == options.num_features()) return;
  throw UsageError("SyncBatchNorm with " + std::to_string(options.num_features()) +
                   " features was given " + detail::describe_tensor(input) +
                   "; it takes [N, C, …] of 2 to 5 dimensions with C = " +
                   std::to_string(options.num_features()));
}

// Counts the batch, and returns the share of the running statistics that it replaces.
double SyncBatchNormImpl::count_batch() {
  if (!is_training() || !options.track_running_stats()) return options.momentum().value_or(0.0);
  num_batches_tracked += 1;
  return options.momentum() ? *options.momentum()
                            : 1.0 / static_cast<double>(num_batches_tracked.item<std::int64_t>());
}

at::Tensor SyncBatchNormImpl::normalise_alone(const at::Tensor& input, double factor) {
  return torch::nn::functional::detail::batch_norm(input, running_mean, running_var, weight, bias,
                                                   is_training() || !options.track_running_stats(),
                                                   factor, options.eps());
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  _check_input_dim(input);
  const double factor = count_batch();
  const auto group = is_training() ? group_() : nullptr;
  if (!group || group->size() == 1) return normalise_alone(input, factor);
  const auto all = gather_statistics(input.detach(), options.eps(), *group);
  if (options.track_running_stats()) {
    const at::NoGradGuard no_grad;
    running_mean.lerp_(all.mean.to(running_mean.scalar_type()), factor);
    running_var.lerp_(all.unbiased_variance.to(running_var.scalar_type()), factor);
  }
  const auto given = [](const at::Tensor& tensor) {
    return tensor.defined() ? std::optional(tensor) : std::nullopt;
  };
  return Normalise::apply(input, given(weight), given(bias), all, group);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "accelerate::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", momentum=";
  if (options.momentum()) {
    stream << *options.momentum();
  } else {
    stream << "None";
  }
  stream << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

}  // namespace accelerate
