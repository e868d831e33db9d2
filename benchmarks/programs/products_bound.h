// The matrix products of a step, and how long they take alone: what no step goes below.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/tensor/compat/matrix_products.h"
#include "benchmarks/programs/measure.h"

namespace bench {

/// One product by shape: mm, bmm, or one of the two with a sum.
struct Product {
  at::ScalarType type;
  std::vector<std::int64_t> left, left_strides, right, right_strides;
  auto operator<=>(const Product&) const = default;
};

using Products = std::map<Product, std::int64_t>;  ///< How often each occurs.

/// Returns the products of `work`. LibTorch's fused attention is not one of them.
template <typename Work>
Products products_of(Work&& work) {
  static Products* products = nullptr;
  Products found;
  products = &found;
  const auto note = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
    constexpr std::array<std::pair<std::string_view, std::size_t>, 4> kOperators{
        {{"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}}};
    // Under autocast the operator is called again, with the type it computes in.
    if (at::autocast::is_autocast_enabled(at::kCPU) &&
        !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU))
      return nullptr;
    for (const auto& [name, first] : kOperators) {
      if (name != call.name()) continue;
      const at::Tensor left = call.inputs()[first].toTensor(),
                       right = call.inputs()[first + 1].toTensor();
      ++(*products)[{left.scalar_type(), left.sizes().vec(), left.strides().vec(),
                     right.sizes().vec(), right.strides().vec()}];
    }
    return nullptr;
  };
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(note).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return found;
}

/// Returns how many seconds the products take, one after the other, by the library that the rule
/// chooses.
inline double seconds_alone(const Products& products) {
  const accelerate::compat::MatrixProducts scope;
  const torch::NoGradGuard no_grad;
  double seconds = 0;
  for (const auto& [product, count] : products) {
    const auto random = [&](at::IntArrayRef sizes, at::IntArrayRef strides) {
      const auto options = at::TensorOptions(product.type);
      const bool is_expanded = std::ranges::count(strides, 0) > 0;
      return (is_expanded ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options))
          .normal_();
    };
    const at::Tensor left = random(product.left, product.left_strides),
                     right = random(product.right, product.right_strides);
    const auto once = [&] { return left.dim() == 2 ? at::mm(left, right) : at::bmm(left, right); };
    once();
    constexpr double kLongEnough = 0.005;
    int times = 0;
    double taken = 0;
    for (; taken < kLongEnough; ++times) taken += seconds_of(once);
    seconds += static_cast<double>(count) * taken / times;
  }
  return seconds;
}

}  // namespace bench
