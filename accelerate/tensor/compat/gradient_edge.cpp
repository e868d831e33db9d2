#include "accelerate/tensor/compat/gradient_edge.h"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <type_traits>

namespace accelerate::compat {
namespace {

// LibTorch holds nodes by shared_ptr, and from 2.13 on by its intrusive pointer.
template <typename Pointer, typename Node>
Pointer new_node() {
  if constexpr (std::is_constructible_v<Pointer, std::shared_ptr<Node>>) {
    return std::make_shared<Node>();
  } else {
    return c10::make_intrusive<Node>();
  }
}

}  // namespace

at::Tensor with_gradient(const at::Tensor& data) {
  using Pointer = decltype(torch::autograd::Edge::function);
  at::Tensor tensor = data.variable_data();
  torch::autograd::create_gradient_edge(tensor, new_node<Pointer, torch::autograd::Identity>());
  return tensor;
}

}  // namespace accelerate::compat
