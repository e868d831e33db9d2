// Who multiplies: the rule, the words of the variable, and the values that both libraries give. The
// library is chosen once a process, so each choice is tested in a process of its own.
#include "accelerate/tensor/compat/matrix_products.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <thread>

#include "accelerate/accelerate.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/proportional_memory.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate::compat {
namespace {

using testing::expect_has;
using testing::message_of;

// --- The rule ---

TEST(MatrixLibraryRule, IsOneDnnWhereItWasMeasuredToBeFaster) {
  const auto by = [](const char* vendor, std::int64_t family, bool avx512) {
    return to_string(faster_library({.vendor = vendor, .family = family, .avx512 = avx512}));
  };
  EXPECT_EQ(by("AuthenticAMD", 26, true), "onednn");
  EXPECT_EQ(by("AuthenticAMD", 26, false), "mkl");
  EXPECT_EQ(by("AuthenticAMD", 23, false), "mkl");
  EXPECT_EQ(by("GenuineIntel", 6, true), "mkl");
  EXPECT_EQ(by("", 0, false), "mkl");
}

void expect_success(const std::string& rank_main, const std::string& word) {
  const auto results =
      testing::run_processes(1, rank_main, {.env = {{"ACCELERATE_CPU_MATMUL", word}}});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].out << results[0].err;
}

RANK_MAIN(refused_word) {
  const std::string message = message_of<ConfigError>([] { (void)matrix_library(); });
  expect_has(message, "ACCELERATE_CPU_MATMUL is 'mlk'; allowed are auto, mkl and onednn");
  return ::testing::Test::HasFailure() ? 1 : 0;
}
TEST(MatrixLibraryRule, RefusesAnotherWord) {
  expect_success("refused_word", "mlk");
}

// --- The values ---

struct Operands {
  std::int64_t rows, inner, columns;
  bool left_transposed = false, right_transposed = false;
};
constexpr Operands kOperands[] = {{128, 128, 128},
                                  {739, 384, 1536},
                                  {739, 384, 1536, false, true},
                                  {384, 739, 1536, true, false},
                                  {257, 301, 513, true, true},
                                  {1, 2048, 2048},
                                  {2048, 2048, 1},
                                  {3, 5, 7}};

at::Tensor drawn(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? torch::randn({columns, rows}).t() : torch::randn({rows, columns});
}

// `wanted` is in fp64.
void expect_product(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const double difference = (found.to(at::kDouble) - wanted).norm().item<double>();
  EXPECT_LE(difference, 1e-6 * wanted.norm().item<double>());
}

void check_products() {
  torch::manual_seed(4);
  for (const auto& o : kOperands) {
    const at::Tensor left = drawn(o.rows, o.inner, o.left_transposed),
                     right = drawn(o.inner, o.columns, o.right_transposed),
                     wanted = left.to(at::kDouble).mm(right.to(at::kDouble));
    const at::Tensor before = at::mm(left, right), added = torch::randn({o.columns});
    {
      const MatrixProducts products;
      EXPECT_TRUE(MatrixProducts::are_wanted());
      expect_product(at::mm(left, right), wanted);
      EXPECT_TRUE(at::mm(left, right).equal(at::mm(left, right)));
      expect_product(at::addmm(added, left, right), wanted + added);
      expect_product(at::addmm(added, left, right, 0.5, 2), wanted * 2 + added * 0.5);
      for (const double alpha : {0.0, 1e-50})
        EXPECT_TRUE(at::addmm(added, left, right, 0.5, alpha)
                        .allclose((added * 0.5).expand({o.rows, o.columns})));
      const at::Tensor none = at::full({o.rows, o.columns}, std::nan(""));
      expect_product(at::addmm(none, left, right, 0, 1), wanted);
      expect_product(at::linear(left, right.t(), added), wanted + added);
      const at::Tensor lefts = at::stack({left, left * 2}), rights = at::stack({right, right}),
                       both = at::stack({wanted, wanted * 2});
      expect_product(at::bmm(lefts, rights), both);
      expect_product(at::bmm(lefts.transpose(1, 2).contiguous().transpose(1, 2), rights), both);
      expect_product(at::baddbmm(both.to(at::kFloat), lefts, rights, 0.5, 1), both * 1.5);
    }
    EXPECT_TRUE(at::mm(left, right).equal(before)) << "a product outside of the scope changed";
  }
}

void check_special_values() {
  const double infinity = std::numeric_limits<double>::infinity();
  at::Tensor left = torch::randn({200, 200}), right = torch::randn({200, 200});
  left[3][5] = infinity;
  left[7].fill_(std::nan(""));
  left[9].zero_();
  right[5][11] = -infinity;
  const at::Tensor plain = at::mm(left, right);
  const MatrixProducts products;
  const at::Tensor found = at::mm(left, right);
  EXPECT_TRUE(found.isnan().equal(plain.isnan()));
  EXPECT_TRUE(found.isinf().equal(plain.isinf()));
  EXPECT_TRUE(found.sign().nan_to_num().equal(plain.sign().nan_to_num()) ||
              found.allclose(plain, 1e-4, 1e-4, /*equal_nan=*/true));
}

// What is not for oneDNN goes to LibTorch's own kernels, with their errors.
void check_others() {
  const at::Tensor doubles = torch::randn({150, 150}, at::kDouble),
                   floats = torch::randn({150, 150});
  const at::Tensor product = doubles.mm(doubles);
  const MatrixProducts products;
  EXPECT_TRUE(doubles.mm(doubles).equal(product));
  EXPECT_EQ(at::mm(torch::empty({0, 300}), torch::empty({300, 400})).sizes(),
            at::IntArrayRef({0, 400}));
  EXPECT_EQ(at::mm(torch::empty({300, 0}), torch::empty({0, 400})).sum().item<double>(), 0);
  EXPECT_THROW(at::mm(floats, torch::randn({149, 150})), c10::Error);
  EXPECT_THROW(at::mm(floats, doubles), c10::Error);
  EXPECT_THROW(at::bmm(floats.unsqueeze(0), torch::randn({2, 150, 150})), c10::Error);
  EXPECT_THROW(at::addmm(torch::randn({7, 150}), floats, floats), c10::Error);
  const at::Tensor complex = torch::randn({150, 150}, at::kComplexFloat);
  EXPECT_TRUE(at::mm(complex.conj(), complex).is_complex());
  EXPECT_EQ(at::mm(floats.to(at::kBFloat16), floats.to(at::kBFloat16)).scalar_type(),
            at::kBFloat16);
}

// A linear layer with a bias is one call of oneDNN, in 16 bits too.
void check_linear_layers() {
  for (const auto& [type, share] : {std::pair(at::kFloat, 1e-6), {at::kBFloat16, 4e-3}}) {
    const at::Tensor x = torch::randn({150, 200}).to(type),
                     weight = torch::randn({300, 200}).to(type),
                     bias = torch::randn({600}).to(type).slice(0, 0, 300),
                     sparse = torch::randn({600}).to(type).slice(0, 0, 600, 2);
    const at::Tensor product = x.to(at::kDouble).mm(weight.t().to(at::kDouble));
    const MatrixProducts products;
    for (const at::Tensor& each : {bias, sparse}) {
      const at::Tensor found = at::linear(x, weight, each), wanted = product + each.to(at::kDouble);
      EXPECT_EQ(found.scalar_type(), type);
      EXPECT_LE((found.to(at::kDouble) - wanted).norm().item<double>(),
                share * wanted.norm().item<double>());
      EXPECT_TRUE(at::linear(x, weight, each).equal(found));
    }
    EXPECT_THROW(at::linear(x, weight, torch::randn({299}).to(type)), c10::Error);
  }
}

void check_whom_a_scope_reaches() {
  {
    const MatrixProducts products;
    const MatrixProducts not_wanted(false);
    EXPECT_TRUE(MatrixProducts::are_wanted());
    std::thread([] { EXPECT_FALSE(MatrixProducts::are_wanted()); }).join();
  }
  EXPECT_FALSE(MatrixProducts::are_wanted());
  try {
    const MatrixProducts products;
    throw std::runtime_error("in a scope");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(MatrixProducts::are_wanted());
}

torch::nn::Sequential net() {
  torch::manual_seed(6);
  return torch::nn::Sequential(torch::nn::Linear(256, 512), torch::nn::Tanh(),
                               torch::nn::Linear(512, 256));
}

template <typename Train>
std::vector<at::Tensor> gradients_of(const Train& train) {
  auto module = net();
  train(module);
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : module->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return x.equal(y); });
}

// Forward and backward of a prepared module, and of a result that is extended, are in a scope.
void check_trainings() {
  const at::Tensor x = torch::randn({300, 256});
  const auto plain =
      gradients_of([&](auto& module) { module->forward(x).square().mean().backward(); });
  const auto scoped = gradients_of([&](auto& module) {
    const MatrixProducts products;
    module->forward(x).square().mean().backward();
  });
  const auto prepared = gradients_of([&](auto& module) {
    Accelerator accelerator({.cpu = true, .communicator = single_communicator()});
    auto model = accelerator.prepare(module);
    accelerator.backward(model(x).square().mean());
  });
  const auto extended = gradients_of([&](auto& module) {
    at::Tensor result;
    {
      const MatrixProducts products;
      result = module->forward(x);
      MatrixProducts::extend_to_backward_of(result);
    }
    result.square().mean().backward();
    EXPECT_FALSE(MatrixProducts::are_wanted());
  });
  EXPECT_TRUE(are_equal(prepared, scoped));
  EXPECT_TRUE(are_equal(extended, scoped));
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(scoped[i].allclose(plain[i], 1e-4, 1e-7));
  if (matrix_library() == MatrixLibrary::onednn) {
    EXPECT_FALSE(are_equal(scoped, plain)) << "were the products oneDNN's?";
  }
}

RANK_MAIN(all_products) {
  EXPECT_EQ(to_string(matrix_library()), *env("ACCELERATE_CPU_MATMUL"));
  const bool is_onednn = matrix_library() == MatrixLibrary::onednn;
  EXPECT_FALSE(MatrixProducts::are_wanted());
  if (is_onednn) {
    check_products();
    check_whom_a_scope_reaches();
  }
  check_special_values();
  check_others();
  check_linear_layers();
  check_trainings();
  return ::testing::Test::HasFailure() ? 1 : 0;
}

RANK_MAIN(refused_onednn) {
  expect_has(
      message_of<ConfigError>([] { (void)matrix_library(); }),
      "ACCELERATE_CPU_MATMUL is 'onednn', for which LibTorch needs a processor with AVX-512");
  return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST(MatrixProducts, AreThoseOfLibTorchToRounding) {
  if (!this_processor().avx512) return expect_success("refused_onednn", "onednn");
  expect_success("all_products", "onednn");
}

TEST(MatrixProducts, CanBeLeftToMkl) {
  expect_success("all_products", "mkl");
}

// --- Kernels that are kept ---

// Every number of rows is another shape, such as the tokens of another batch. What oneDNN keeps by
// itself grows by 1 MiB each.
RANK_MAIN(many_shapes) {
  const Accelerator accelerator({.cpu = true});
  const MatrixProducts products;
  const at::Tensor weight = torch::randn({384, 384}), bias = torch::randn({384});
  const auto multiply = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t rows = from; rows < to; ++rows)
      torch::linear(torch::randn({rows, 384}), weight, bias);
  };
  multiply(256, 336);  // Until as many are kept as may be.
  const double before = testing::proportional_set_size();
  multiply(336, 536);
  EXPECT_LT(testing::proportional_set_size() - before, 60 << 20);
  return ::testing::Test::HasFailure() ? 1 : 0;
}
TEST(KernelCaches, HoldFewShapes) {
  if (!this_processor().avx512) GTEST_SKIP() << "no AVX-512";
  expect_success("many_shapes", "onednn");
}

}  // namespace
}  // namespace accelerate::compat
