// Linear layers whose backward leaves out rows without a gradient.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate::detail {
namespace {

using torch::autograd::grad;

struct FewGradients : ::testing::TestWithParam<at::ScalarType> {
  FewGradients() { at::manual_seed(3); }

  // Random numbers with a gradient.
  [[nodiscard]] static at::Tensor leaf(at::IntArrayRef sizes) {
    return at::randn(sizes).to(GetParam()).requires_grad_();
  }
  // Returns the gradients of a loss that reads `rows` of the output.
  [[nodiscard]] std::vector<at::Tensor> gradients(const at::Tensor& output, const at::Tensor& rows,
                                                  bool again = false) {
    const at::Tensor loss = (output.flatten(0, 1).index_select(0, rows).square()).sum();
    return grad({loss}, {input, weight, bias}, {}, /*retain_graph=*/true, /*create_graph=*/again);
  }
  const at::Tensor input = leaf({3, 5, 8}), weight = leaf({6, 8}), bias = leaf({6});
};

TEST_P(FewGradients, AreThoseOfTheWholeLayer) {
  const at::Tensor found = linear_of_few_gradients(input, weight, bias);
  const at::Tensor expected = at::linear(input, weight, bias);
  EXPECT_TRUE(found.equal(expected));
  EXPECT_NE(found.grad_fn()->name(), expected.grad_fn()->name());
  for (const at::Tensor& rows : {at::arange(15), at::arange(4), at::tensor({14}), at::arange(0)}) {
    const auto got = gradients(found, rows.to(at::kLong)),
               want = gradients(expected, rows.to(at::kLong));
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(got[i].allclose(want[i], 1e-2, 1e-5)) << rows.numel() << " rows, " << i;
  }
}

TEST_P(FewGradients, HaveGradientsThemselves) {
  const auto twice = [&](const at::Tensor& output) {
    const auto first = gradients(output, at::arange(4), /*again=*/true);
    const at::Tensor sum = first[0].square().sum() + first[1].square().sum();
    return grad({sum}, {input, weight}, {}, /*retain_graph=*/true);
  };
  const auto got = twice(linear_of_few_gradients(input, weight, bias)),
             want = twice(at::linear(input, weight, bias));
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i].allclose(want[i], 1e-2, 1e-5 * want[i].abs().max().item<double>())) << i;
}

TEST_P(FewGradients, LeaveOutFrozenWeightsAndAMissingBias) {
  const at::Tensor frozen = weight.detach();
  const at::Tensor output = linear_of_few_gradients(input, frozen, {});
  const auto got = grad({output.narrow(1, 0, 2).sum()}, {input});
  EXPECT_TRUE(got[0].narrow(1, 2, 3).eq(0).all().item<bool>());
  EXPECT_TRUE(got[0][1][1].allclose(frozen.sum(0), 1e-2, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Types, FewGradients, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(toString(info.param)); });

}  // namespace
}  // namespace accelerate::detail
