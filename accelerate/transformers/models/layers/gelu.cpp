#include "accelerate/transformers/models/layers/activations.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "accelerate/transformers/models/layers/kernels/kernels.h"

namespace accelerate::detail {
namespace {

at::Tensor compute_gelu_backward(const at::Tensor& given_by, const at::Tensor& input) {
  using namespace layer_kernels;
  const at::Tensor by = given_by.contiguous();
  at::Tensor result = at::empty_like(input);
  const auto loop = loops().gelu_backward[input.scalar_type() == at::kFloat ? kFloat32 : kBFloat16];
  const auto bytes = static_cast<std::int64_t>(input.element_size());
  const auto* const from = static_cast<const char*>(input.const_data_ptr());
  const auto* const gradient = static_cast<const char*>(by.const_data_ptr());
  auto* const to = static_cast<char*>(result.mutable_data_ptr());
  constexpr std::int64_t kGrain = 1 << 14;
  at::parallel_for(0, input.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    loop({from + begin * bytes, gradient + begin * bytes, to + begin * bytes,
          static_cast<Size>(end - begin)});
  });
  return result;
}

TORCH_LIBRARY_FRAGMENT(accelerate, library) {
  library.def("gelu_backward(Tensor by, Tensor input) -> Tensor");
}
TORCH_LIBRARY_IMPL(accelerate, CPU, library) {
  library.impl("gelu_backward", compute_gelu_backward);
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    context->save_for_backward({input});
    return at::gelu(input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto kOperator = c10::Dispatcher::singleton()
                                      .findSchemaOrThrow("accelerate::gelu_backward", "")
                                      .typed<decltype(compute_gelu_backward)>();
    const at::Tensor input = context->get_saved_variables()[0];
    if (at::GradMode::is_enabled()) return {at::gelu_backward(gradients[0], input)};
    return {kOperator.call(gradients[0], input)};
  }
};

}  // namespace

at::Tensor gelu_of(const at::Tensor& input) {
  const auto type = input.scalar_type();
  const bool is_ours = input.device().is_cpu() && input.is_contiguous() &&
                       (type == at::kFloat || type == at::kBFloat16) &&
                       layer_kernels::are_vectorised();
  return is_ours ? Gelu::apply(input) : at::gelu(input);
}

}  // namespace accelerate::detail
