// SyncBatchNorm on N ranks against BatchNorm in one process, and the conversion of modules.
#include "accelerate/parallel/replicated/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;
using torch::nn::BatchNormOptions;

struct NormSetting {
  std::vector<std::int64_t> batches;  // one a rank
  std::vector<std::int64_t> rest;     // [C, …]
  BatchNormOptions options{3};
};

at::Tensor samples(std::int64_t n, const std::vector<std::int64_t>& rest, double phase) {
  std::vector<std::int64_t> shape = {n};
  shape.insert(shape.end(), rest.begin(), rest.end());
  const auto numel = c10::multiply_integers(shape);
  return (torch::sin(torch::arange(numel, at::kDouble) * 0.73 + phase) * 2 + phase).view(shape);
}

template <typename Norm>
void set_weights(Norm& norm) {
  norm->to(at::kDouble);
  if (!norm->weight.defined()) return;
  torch::NoGradGuard no_grad;
  norm->weight.copy_(torch::tensor({0.5, 1.5, -1.0}, at::kDouble));
  norm->bias.copy_(torch::tensor({0.1, 0.0, -0.2}, at::kDouble));
}

struct Results {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient, running_mean, running_var;
};

template <typename Norm>
Results run(Norm& norm, at::Tensor x, const at::Tensor& factors) {
  x = x.detach().clone().requires_grad_();
  Results results;
  for (int step = 0; step < 2; ++step) {  // twice, for the running statistics
    results.output = norm->forward(x);
    norm->zero_grad();
    x.mutable_grad().reset();
    (results.output * factors).sum().backward();
  }
  results.input_gradient = x.grad();
  if (norm->weight.defined()) {
    results.weight_gradient = norm->weight.grad();
    results.bias_gradient = norm->bias.grad();
  }
  results.running_mean = norm->running_mean;
  results.running_var = norm->running_var;
  return results;
}

// fp64; sums of a few hundred terms in another order.
void expect_close(const at::Tensor& ours, const at::Tensor& expected, const char* what) {
  ASSERT_EQ(ours.defined(), expected.defined()) << what;
  if (!ours.defined() || ours.numel() == 0) return;
  EXPECT_LE((ours - expected).abs().max().item<double>(), 1e-12) << what;
}

class SyncBatchNormRanks : public ::testing::TestWithParam<NormSetting> {};

TEST_P(SyncBatchNormRanks, NormaliseAsOneProcessWithTheWholeBatch) {
  const auto& setting = GetParam();
  std::int64_t all = 0;
  for (const auto n : setting.batches) all += n;
  const auto whole = samples(all, setting.rest, 0.4), factors = samples(all, setting.rest, 1.1);
  SyncBatchNorm alone(setting.options);
  set_weights(alone);
  const auto expected = run(alone, whole, factors);
  run_ranks_shared(static_cast<int>(setting.batches.size()), [&](const auto& comm) {
    SyncBatchNorm norm(setting.options);
    set_weights(norm);
    detail::join_batch_norms(*norm, comm);
    std::int64_t begin = 0;
    for (int rank = 0; rank < comm->rank(); ++rank)
      begin += setting.batches[static_cast<std::size_t>(rank)];
    const auto mine = [&](const at::Tensor& tensor) {
      return tensor.narrow(0, begin, setting.batches[static_cast<std::size_t>(comm->rank())]);
    };
    auto ours = run(norm, mine(whole), mine(factors));
    expect_close(ours.output, mine(expected.output), "output");
    expect_close(ours.input_gradient, mine(expected.input_gradient), "input gradient");
    expect_close(ours.running_mean, expected.running_mean, "running mean");
    expect_close(ours.running_var, expected.running_var, "running var");
    for (auto* gradient : {&ours.weight_gradient, &ours.bias_gradient}) {
      if (gradient->defined()) comm->all_reduce(*gradient, ReduceOp::sum).wait();
    }
    expect_close(ours.weight_gradient, expected.weight_gradient, "weight gradient");
    expect_close(ours.bias_gradient, expected.bias_gradient, "bias gradient");
  });
}

INSTANTIATE_TEST_SUITE_P(
    Batches, SyncBatchNormRanks,
    ::testing::Values(NormSetting{{4, 4}, {3}}, NormSetting{{5, 2, 1}, {3}},
                      NormSetting{{3, 0, 4}, {3, 5}}, NormSetting{{2, 3}, {3, 4, 2}},
                      NormSetting{{1, 1, 2, 1}, {3, 2, 2, 2}},
                      NormSetting{{4, 3}, {3}, BatchNormOptions(3).momentum(std::nullopt)},
                      NormSetting{{4, 3}, {3}, BatchNormOptions(3).momentum(0.3).eps(1e-3)},
                      NormSetting{{4, 3}, {3}, BatchNormOptions(3).affine(false)},
                      NormSetting{{4, 3}, {3}, BatchNormOptions(3).track_running_stats(false)}));

TEST(SyncBatchNorm, AloneIsLibTorchsBatchNorm) {
  SyncBatchNorm ours(BatchNormOptions(3));
  torch::nn::BatchNorm2d theirs(BatchNormOptions(3));
  set_weights(ours);
  set_weights(theirs);
  const auto x = samples(4, {3, 2, 2}, 0.4), factors = samples(4, {3, 2, 2}, 1.1);
  const auto mine = run(ours, x, factors), reference = run(theirs, x, factors);
  EXPECT_TRUE(mine.output.equal(reference.output));
  EXPECT_TRUE(mine.input_gradient.equal(reference.input_gradient));
  EXPECT_TRUE(mine.running_var.equal(reference.running_var));
}

TEST(SyncBatchNorm, InEvaluationUsesItsRunningStatisticsAndCommunicatesNothing) {
  run_ranks_shared(2, [](const auto& comm) {
    SyncBatchNorm norm(BatchNormOptions(3));
    detail::join_batch_norms(*norm, comm);
    norm->running_mean.fill_(1);
    norm->eval();
    const auto x = samples(2, {3}, 0).to(at::kFloat);
    if (comm->rank() == 0) {
      EXPECT_TRUE(norm(x).allclose((x - 1) / std::sqrt(1 + 1e-5)));
    }
    comm->barrier();  // the group of the norms is not to end while a peer still connects
  });
}

TEST(SyncBatchNorm, NormalisesOverAllRanksAgainOnceTheirGroupWasRenewed) {
  run_ranks_shared(2, [](const auto& comm) {
    SyncBatchNorm norm(BatchNormOptions(3));
    detail::join_batch_norms(*norm, comm);
    const auto x = torch::full({4, 3}, 2 * comm->rank() - 1.0);
    const auto before = norm(x);
    if (comm->rank() == 1) comm->abort("out of memory");
    EXPECT_THROW(comm->barrier(), CommError);
    comm->renew();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(norm(x).equal(before));
    EXPECT_TRUE(before.allclose(x)) << "alone, it would be 0";
  });
}

TEST(SyncBatchNorm, TakesSixteenBitInputsAndComputesInFloat) {
  run_ranks_shared(2, [](const auto& comm) {
    SyncBatchNorm norm(BatchNormOptions(3));
    detail::join_batch_norms(*norm, comm);
    const auto x = samples(8, {3}, comm->rank()).to(at::kBFloat16);
    const auto y = norm(x);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_EQ(norm->running_mean.scalar_type(), at::kFloat);
  });
}

TEST(SyncBatchNorm, BadInputIsAUsageErrorOnAllRanks) {
  struct Bad {
    std::vector<std::int64_t> shape;
    std::string says;
  };
  for (const auto& [shape, says] : std::vector<Bad>{{{4}, "Float[4]"},
                                                    {{4, 2}, "with C = 3"},
                                                    {{1, 3, 1, 1, 1, 1}, "2 to 5 dimensions"},
                                                    {{0, 3}, "all ranks together have 0"}}) {
    run_ranks_shared(2, [&, shape = shape, says = says](const auto& comm) {
      SyncBatchNorm norm(BatchNormOptions(3));
      detail::join_batch_norms(*norm, comm);
      try {
        (void)norm(torch::ones(shape));
        ADD_FAILURE() << says;
      } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
      }
      comm->barrier();
    });
  }
}

struct TypedImpl : torch::nn::Module {
  TypedImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    body = register_module(
        "body", torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3)));
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Sequential body{nullptr};
};

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    body = register_module(
        "body", torch::nn::Sequential(torch::nn::Conv2d(3, 3, 1), torch::nn::BatchNorm2d(3)));
  }
  at::Tensor forward(const at::Tensor& x) { return body->forward(x); }
  torch::nn::Sequential body{nullptr};
};
TORCH_MODULE(Block);

TEST(ConvertSyncBatchnorm, ReplacesWhatSequentialsHoldAtAnyDepthAndKeepsTheTensors) {
  Block block;
  torch::nn::Sequential net(block, torch::nn::BatchNorm2d(3), torch::nn::ReLU());
  const auto before = net->parameters();
  const auto names = net->named_buffers().keys();
  EXPECT_EQ(convert_sync_batchnorm(*net), 2u);
  const auto after = net->parameters();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].is_same(before[i])) << i;
  EXPECT_EQ(net->named_buffers().keys(), names);
  EXPECT_EQ(net->forward(torch::ones({2, 3, 4, 4})).size(1), 3);
  EXPECT_NE(net[1]->as<SyncBatchNormImpl>(), nullptr);
  EXPECT_NE(block->body[1]->as<SyncBatchNormImpl>(), nullptr);
}

TEST(ConvertSyncBatchnorm, RefusesTypedMembersByNameAndThenConvertsNothing) {
  TypedImpl module;
  try {
    convert_sync_batchnorm(module);
    FAIL();
  } catch (const UsageError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("BatchNorm: norm."), std::string::npos) << text;
    EXPECT_NE(text.find("accelerate::SyncBatchNorm"), std::string::npos) << text;
  }
  EXPECT_EQ(module.body[1]->as<SyncBatchNormImpl>(), nullptr);
  torch::nn::BatchNorm1d root(3);
  EXPECT_THROW(convert_sync_batchnorm(*root), UsageError);
}

}  // namespace
}  // namespace accelerate
