// Gradient reduction: equal to one process, equal to c10d::Reducer, and its errors.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/parallel/gradients/bucket_store.h"
#include "accelerate/parallel/gradients/gradient_reducer.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks;
using testing::run_ranks_shared;

struct TwoLayersImpl : torch::nn::Module {
  explicit TwoLayersImpl(std::int64_t width = 16) {
    first = register_module("first", torch::nn::Linear(8, width));
    second = register_module("second", torch::nn::Linear(width, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(TwoLayers);

// The same weights on every rank, without the generator that threads share.
void fill(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  double start = 0.1;
  for (auto& parameter : module.parameters()) {
    parameter.copy_(torch::sin(torch::arange(parameter.numel(), at::kDouble) * 0.7 + start)
                        .view(parameter.sizes()) *
                    0.5);
    start += 1.3;
  }
}

at::Tensor inputs(int rank, std::int64_t rows = 4) {
  return torch::cos(torch::arange(rows * 8, at::kDouble) * 0.31 + rank).view({rows, 8});
}

std::vector<at::Tensor> grads_of(torch::nn::Module& module) {
  std::vector<at::Tensor> grads;
  for (const auto& parameter : module.parameters()) grads.push_back(parameter.grad().clone());
  return grads;
}

// One process over the batches of all ranks.
std::vector<at::Tensor> expected_grads(int n) {
  TwoLayers model;
  model->to(at::kDouble);
  fill(*model);
  for (int rank = 0; rank < n; ++rank) (model(inputs(rank)).pow(2).mean() / n).backward();
  return grads_of(*model);
}

TEST(Buckets, AreFilledFromTheLastParameterAndKeepDtypesApart) {
  const std::vector<at::Tensor> parameters = {torch::empty({100}), torch::empty({10}, at::kDouble),
                                              torch::empty({50}), torch::empty({1000})};
  const auto buckets = assign_buckets(parameters, {.first_bytes = 16, .cap_bytes = 400});
  EXPECT_EQ(buckets, (std::vector<std::vector<std::size_t>>{{3}, {2, 0}, {1}}));
}

TEST(Buckets, OneLimitHoldsEverything) {
  const std::vector<at::Tensor> parameters = {torch::empty({4}), torch::empty({4})};
  EXPECT_EQ(assign_buckets(parameters, {}), (std::vector<std::vector<std::size_t>>{{1, 0}}));
  EXPECT_TRUE(assign_buckets({}, {}).empty());
}

class Reducer : public ::testing::TestWithParam<std::tuple<int, std::int64_t>> {};

TEST_P(Reducer, AveragesAsOneProcessWould) {
  const auto [n, bytes] = GetParam();
  const auto expected = expected_grads(n);
  run_ranks_shared(n, [&, bytes = bytes](const std::shared_ptr<Communicator>& comm) {
    TwoLayers model;
    model->to(at::kDouble);
    fill(*model);
    GradientReducer reducer(view_of(*model).parameters, comm,
                            {.limits = {.first_bytes = bytes, .cap_bytes = bytes}});
    for (int step = 0; step < 3; ++step) {
      model->zero_grad(step % 2 == 0);  // gradients kept in place or dropped: the same
      reducer.begin();
      model(inputs(comm->rank())).pow(2).mean().backward();
      EXPECT_TRUE(reducer.finish());
      const auto grads = grads_of(*model);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        // fp64, sums of at most three terms in another order
        EXPECT_LE((grads[i] - expected[i]).abs().max().item<double>(), 1e-14) << i;
      }
    }
  });
}
INSTANTIATE_TEST_SUITE_P(RanksAndBucketBytes, Reducer,
                         ::testing::Combine(::testing::Values(2, 3),
                                            ::testing::Values(1, 300, 1 << 20)));

// c10d's reducer on the same gradients: two ranks sum two numbers, so the results are equal bit for
// bit.
TEST(ReducerOracle, EqualsC10dBitForBitOnTwoRanks) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    TwoLayers ours, theirs;
    fill(*ours);
    fill(*theirs);
    const auto x = inputs(comm->rank()).to(at::kFloat);

    GradientReducer reducer(view_of(*ours).parameters, comm, {});
    reducer.begin();
    ours(x).pow(2).mean().backward();
    reducer.finish();

    auto group =
        c10::make_intrusive<c10d::ProcessGroup>(comm->c10d()->store, comm->rank(), comm->size());
    group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, comm->c10d()->backend);
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    auto parameters = theirs->parameters();
    const std::vector<std::vector<std::size_t>> buckets = {{0, 1, 2, 3}};
    c10d::Reducer oracle(parameters, buckets, group, std::vector<bool>(parameters.size(), false),
                         /*bucket_bytes_cap=*/25 << 20, /*find_unused_parameters=*/false,
                         /*gradient_as_bucket_view=*/false, /*param_names=*/{},
                         /*first_bucket_bytes_cap=*/1 << 20,
                         /*skip_all_reduce_unused_params=*/false,
                         /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/{});
    oracle.prepare_for_forward();
    auto output = theirs(x);
    oracle.prepare_for_backward({output});
    output.pow(2).mean().backward();

    const auto mine = grads_of(*ours), reference = grads_of(*theirs);
    for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(mine[i].equal(reference[i])) << i;
  });
}

TEST(GradientReducer, WithoutSynchronisationOnlyAccumulates) {
  const auto expected = expected_grads(2);
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    TwoLayers model;
    model->to(at::kDouble);
    fill(*model);
    GradientReducer reducer(view_of(*model).parameters, comm, {});
    for (const bool synchronize : {false, true}) {
      reducer.begin({.synchronize = synchronize});
      (model(inputs(comm->rank())).pow(2).mean() / 2).backward();
      reducer.finish();
    }
    const auto grads = grads_of(*model);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      EXPECT_LE((grads[i] - expected[i]).abs().max().item<double>(), 1e-14);
    }
  });
}

struct LinearBranchesImpl : torch::nn::Module {
  LinearBranchesImpl() {
    left = register_module("left", torch::nn::Linear(8, 2));
    right = register_module("right", torch::nn::Linear(8, 2));
    never = register_module("never", torch::nn::Linear(8, 2));
  }
  at::Tensor forward(const at::Tensor& x, bool use_right) { return (use_right ? right : left)(x); }
  torch::nn::Linear left{nullptr}, right{nullptr}, never{nullptr};
};
TORCH_MODULE(LinearBranches);

TEST(GradientReducer, FindsUnusedParametersAndLeavesThoseThatNoRankUsed) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    LinearBranches model;
    model->to(at::kDouble);
    fill(*model);
    GradientReducer reducer(view_of(*model).parameters, comm, {.find_unused_parameters = true});
    const auto loss = model(inputs(comm->rank()), comm->rank() == 1).sum();
    reducer.begin({.loss = loss});
    loss.backward();
    reducer.finish();
    // Each branch ran on one rank of two: the average is half of that rank's gradient.
    EXPECT_TRUE(model->left->weight.grad()[0].allclose(inputs(0).sum(0) / 2));
    EXPECT_TRUE(model->right->weight.grad()[0].allclose(inputs(1).sum(0) / 2));
    EXPECT_FALSE(model->never->weight.grad().defined());
  });
}

TEST(GradientReducer, NamesUnusedParametersOnEveryRank) {
  run_ranks_shared(2,
                   [](const std::shared_ptr<Communicator>& comm) {
                     LinearBranches model;
                     model->to(at::kDouble);
                     fill(*model);
                     GradientReducer reducer(view_of(*model).parameters, comm, {});
                     comm->barrier();  // nobody gives up while a peer still connects
                     reducer.begin();
                     model(inputs(0), false).sum().backward();
                     try {
                       reducer.finish();
                       FAIL();
                     } catch (const UsageError& error) {
                       const std::string text = error.what();
                       EXPECT_NE(text.find("right.weight, right.bias, never.weight, never.bias"),
                                 std::string::npos)
                           << text;
                       EXPECT_NE(text.find("find_unused_parameters"), std::string::npos) << text;
                     }
                   },
                   {.timeout = std::chrono::seconds(5)});
}

TEST(GradientReducer, ParametersFrozenLaterMayStayAway) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    TwoLayers model;
    GradientReducer reducer(view_of(*model).parameters, comm, {});
    model->first->weight.requires_grad_(false);
    model->first->bias.requires_grad_(false);
    reducer.begin();
    model(inputs(comm->rank()).to(at::kFloat)).sum().backward();
    EXPECT_TRUE(reducer.finish());
    EXPECT_FALSE(model->first->weight.grad().defined());
    EXPECT_TRUE(model->second->weight.grad().defined());
  });
}

TEST(GradientReducer, KeepsTheLayoutOfChannelsLast) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    torch::nn::Conv2d conv(4, 8, 3);
    conv->to(at::kCPU);
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
    GradientReducer reducer(view_of(*conv).parameters, comm, {});
    reducer.begin();
    conv(torch::ones({2, 4, 5, 5})).sum().backward();
    reducer.finish();
    EXPECT_EQ(conv->weight.grad().strides(), conv->weight.strides());
  });
}

TEST(GradientReducer, SparseGradientsAreRefusedWithTheCure) {
  run_ranks_shared(
      2,
      [](const std::shared_ptr<Communicator>& comm) {
        torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true));
        GradientReducer reducer(view_of(*embedding).parameters, comm, {});
        reducer.begin();
        EXPECT_THROW(embedding(torch::tensor({1, 2})).sum().backward(), UsageError);
        reducer.abandon("sparse");
      },
      {.timeout = std::chrono::seconds(5)});
}

TEST(GradientReducer, AHookOfTheUserStillRuns) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    TwoLayers model;
    int calls = 0;
    {
      GradientReducer outer(view_of(*model).parameters, single_communicator(), {});
      outer.set_guard([&calls](const std::string&) { ++calls; });
      GradientReducer reducer(view_of(*model).parameters, comm, {});
      reducer.begin();
      outer.begin({.synchronize = false});
      model(inputs(0).to(at::kFloat)).sum().backward();
      reducer.finish();
      EXPECT_EQ(calls, 4);
    }
    model(inputs(0).to(at::kFloat)).sum().backward();
    EXPECT_EQ(calls, 4) << "hooks go with their reducer";
  });
}

}  // namespace
}  // namespace accelerate
