// The replicated model: when it synchronises, and what each keyword does.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/branches.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::Branches;
using testing::kSoon;
using testing::message_of;
using testing::run_ranks_shared;
using testing::says;

TEST(TriggerSyncInBackward, TheNextBackwardSynchronisesUnderNoSyncAndOnlyThat) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm);
    const auto loss = [&] {
      return replica.use(replica.left, replica.mine()) + replica.use(replica.right, 1);
    };
    replica.engine.set_synchronize(false);
    const auto first = loss(), second = loss(), third = loss();
    replica.backward(first);
    EXPECT_EQ(Branches::gradient(replica.left), replica.mine());
    replica.engine.trigger_sync_in_backward();
    replica.backward(second);
    EXPECT_EQ(Branches::gradient(replica.left), 3.0) << "the mean of 2 and 4";
    replica.backward(third);
    EXPECT_EQ(Branches::gradient(replica.left), 3.0 + replica.mine());
  });
}

// On every rank, after the ranks were found to agree: nobody waits for one that has refused.
TEST(DistributedDataParallel, ASparseTensorOfTheModelIsRefusedByItsNameOnAllRanks) {
  const std::pair<const char*, std::function<void(torch::nn::Module&)>> cases[] = {
      {"'0.adjacency' of",
       [](auto& net) { net.register_buffer("adjacency", torch::eye(3).to_sparse()); }},
      {"Float[3, 3] of layout SparseCsr",
       [](auto& net) { net.register_buffer("adjacency", torch::eye(3).to_sparse_csr()); }},
      {"'0.table' of",
       [](auto& net) { net.register_parameter("table", torch::eye(3).to_sparse()); }}};
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    for (const auto& [expected, add] : cases) {
      torch::nn::Sequential net(torch::nn::Linear(3, 3));
      add(*net[0]);
      const auto text =
          message_of<UsageError>([&] { DistributedDataParallel(view_of(*net), comm); });
      EXPECT_TRUE(says(text, expected)) << text;
      EXPECT_TRUE(says(text, "Register the indices and values")) << text;
    }
    comm->barrier();
  });
}

TEST(DistributedDataParallel, ATensorThatIsSparseOnOneRankIsADisagreement) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    torch::nn::Linear net(3, 3);
    const auto eye = torch::eye(3);
    net->register_buffer("adjacency", comm->rank() == 0 ? eye : eye.to_sparse());
    EXPECT_THROW(DistributedDataParallel(view_of(*net), comm), CommError);
    comm->barrier();
  });
}

TEST(FindUnusedParameters, ALossThatNeverTouchesTheModelOnOneRankHoldsNobodyUp) {
  run_ranks_shared(
      3,
      [](const std::shared_ptr<Communicator>& comm) {
        Branches replica(comm, {.find_unused_parameters = true});
        const auto other = torch::ones({1}, torch::requires_grad());
        const auto used = replica.use(replica.left, 6);
        replica.backward(comm->rank() == 1 ? other.sum() : used);
        EXPECT_EQ(Branches::gradient(replica.left), 4.0) << "twice 6 and nothing, by three";
        EXPECT_FALSE(replica.right->weight.grad().defined()) << "used by no rank";
      },
      kSoon);
}

TEST(FindUnusedParameters, WhatWasAccumulatedBeforeCountsThoughTheLastLossDoesNotUseIt) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.find_unused_parameters = true});
    replica.engine.set_synchronize(false);
    if (comm->rank() == 0) replica.backward(replica.use(replica.left, 8));
    replica.engine.set_synchronize(true);
    replica.backward(replica.use(replica.right, 1));
    EXPECT_EQ(Branches::gradient(replica.left), 4.0);
    EXPECT_EQ(Branches::gradient(replica.right), 1.0);
  });
}

// Rank 0's losses use both models in one order, rank 1's only the second.
TEST(FindUnusedParameters, TwoModelsMayBeUsedDifferentlyInOneBackward) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    const DistributedDataParallelKwargs kwargs{.find_unused_parameters = true};
    Branches a(comm, kwargs), b(comm, kwargs);
    auto loss = b.use(b.left, 2) + b.use(b.right, 4);
    if (comm->rank() == 0) loss = loss + a.use(a.left, 8) + a.use(a.right, 6);
    run_backward({&a.engine, &b.engine}, {.loss = loss}, [&] { loss.backward(); });
    EXPECT_EQ(Branches::gradient(a.left), 4.0);
    EXPECT_EQ(Branches::gradient(a.right), 3.0);
    EXPECT_EQ(Branches::gradient(b.left), 2.0);
    EXPECT_EQ(Branches::gradient(b.right), 4.0);
  });
}

TEST(StaticGraph, AllowsParametersThatTheFirstStepDidNotUse) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.static_graph = true});
    for (int step = 0; step < 3; ++step) {
      replica.zero_grad();
      replica.backward(replica.use(replica.left, replica.mine()));
      EXPECT_EQ(Branches::gradient(replica.left), 1.5) << step;
      EXPECT_FALSE(replica.right->weight.grad().defined());
    }
  });
}

TEST(StaticGraph, ARankMayUseWhatAnotherDoesNot) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.static_graph = true});
    for (int step = 0; step < 3; ++step) {
      replica.zero_grad();
      auto& layer = comm->rank() == 0 ? replica.left : replica.right;
      replica.backward(replica.use(layer, 4));
      EXPECT_EQ(Branches::gradient(replica.left), 2.0) << step;
      EXPECT_EQ(Branches::gradient(replica.right), 2.0) << step;
    }
  });
}

// A node whose backward runs a backward of its own, as re-entrant checkpointing does.
struct Reentrant : torch::autograd::Function<Reentrant> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x,
                            at::Tensor weight) {
    context->save_for_backward({x, weight});
    return x * weight.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::AutoGradMode grad_mode(true);
    const auto x = saved[0].detach().requires_grad_();
    (x * saved[1]).backward(grads[0]);
    return {x.grad(), at::Tensor()};
  }
};

TEST(StaticGraph, LetsAGradientComeSeveralTimesInOneBackward) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.static_graph = true});
    for (int step = 0; step < 3; ++step) {
      replica.zero_grad();
      replica.engine.before_forward(true);
      auto x = torch::full({1, 1}, replica.mine(), torch::requires_grad());
      // d/dw of x·w·w where each factor comes by a backward of its own: 2·x at w = 1.
      auto loss =
          Reentrant::apply(Reentrant::apply(x, replica.left->weight), replica.left->weight).sum();
      replica.backward(loss);
      EXPECT_EQ(Branches::gradient(replica.left), 3.0) << step;
    }
  });
}

TEST(StaticGraph, AGraphThatChangesIsAUsageErrorThatNamesTheParameter) {
  run_ranks_shared(
      2,
      [](const std::shared_ptr<Communicator>& comm) {
        Branches replica(comm, {.static_graph = true});
        replica.backward(replica.use(replica.left, 1));
        const auto more = message_of<UsageError>([&] {
          replica.backward(replica.use(replica.left, 1) + replica.use(replica.right, 1));
        });
        EXPECT_TRUE(says(more, "'1.weight' came 1 times in this backward and 0 times")) << more;
      },
      kSoon);
  run_ranks_shared(
      2,
      [](const std::shared_ptr<Communicator>& comm) {
        Branches replica(comm, {.static_graph = true});
        replica.backward(replica.use(replica.left, 1) + replica.use(replica.right, 1));
        const auto fewer =
            message_of<UsageError>([&] { replica.backward(replica.use(replica.left, 1)); });
        EXPECT_TRUE(says(fewer, "fewer gradients than in the first step: 1.weight")) << fewer;
      },
      kSoon);
}

TEST(StaticGraph, ARankWithoutInputsInTheFirstStepMayNotUseWhatNoOtherDoes) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.static_graph = true});
    if (comm->rank() == 0) {
      replica.backward(replica.use(replica.left, 1));
      EXPECT_THROW(replica.backward(replica.use(replica.left, 1)), CommError);
    } else {
      replica.engine.begin_shadow({});
      replica.engine.finish_shadow();
      const auto text =
          message_of<UsageError>([&] { replica.backward(replica.use(replica.right, 1)); });
      EXPECT_TRUE(says(text, "no other rank used them in its own first step")) << text;
      EXPECT_TRUE(says(text, "1.weight")) << text;
    }
  });
}

class BucketView : public ::testing::TestWithParam<bool> {};

TEST_P(BucketView, DecidesWhetherAKeptGradientIsOverwritten) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm, {.gradient_as_bucket_view = GetParam()});
    std::vector<at::Tensor> kept, views;
    for (int step = 1; step <= 3; ++step) {
      replica.zero_grad();
      replica.backward(replica.use(replica.left, step) + replica.use(replica.right, step));
      kept.push_back(replica.left->weight.grad());
      views.push_back(replica.right->weight.grad().view({-1}));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const double expected = GetParam() ? 3.0 : static_cast<double>(i + 1);
      EXPECT_EQ(kept[i].item<double>(), expected);
      EXPECT_EQ(views[i].item<double>(), expected);
    }
  });
}
INSTANTIATE_TEST_SUITE_P(GradientAs, BucketView, ::testing::Bool());

TEST(BucketView, MemoryIsUsedAgainWhenNothingIsKept) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Branches replica(comm);
    const void* memory = nullptr;
    for (int step = 0; step < 4; ++step) {
      replica.model->zero_grad(step % 2 == 0);
      replica.backward(replica.use(replica.left, 1) + replica.use(replica.right, 1));
      const void* now = replica.left->weight.grad().data_ptr();
      EXPECT_TRUE(step == 0 || now == memory) << step;
      memory = now;
    }
  });
}

TEST(Buffers, AreSentAfterTheBucketsWhereverTheseBecomeFull) {
  run_ranks_shared(
      2,
      [](const std::shared_ptr<Communicator>& comm) {
        torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
        DistributedDataParallel engine(view_of(*model), comm,
                                       {.bucket_cap_mb = 1e-6, .find_unused_parameters = true});
        engine.before_forward(true);
        const auto x = torch::arange(8, at::kFloat).view({2, 4}) * (comm->rank() + 1);
        // Rank 1 leaves the first layer out.
        const auto y = comm->rank() == 0 ? model->forward(x)
                                         : model[1]->as<torch::nn::BatchNorm1d>()->forward(x);
        const auto loss = y.pow(2).sum();
        run_backward({&engine}, {.loss = loss}, [&] { loss.backward(); });
        std::vector<at::Tensor> all = {torch::empty({4}), torch::empty({4})};
        const auto mean = model->named_buffers()["1.running_mean"];
        const auto both = torch::empty({2, 4});
        comm->all_gather(both, mean).wait();
        EXPECT_TRUE(both[0].equal(both[1]));
      },
      kSoon);
}

}  // namespace
}  // namespace accelerate
