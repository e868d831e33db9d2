// Local SGD against the same computed by hand.
#include "accelerate/parallel/replicated/local_sgd.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

// loss = weight · (rank + 1), so plain SGD with rate 1 takes rank + 1 off the weight each step.
struct Trainer {
  explicit Trainer(std::shared_ptr<Communicator> comm)
      : communicator(std::move(comm)),
        engine(std::make_shared<DistributedDataParallel>(view_of(*layer), communicator)) {}

  void step() {
    layer->zero_grad();
    engine->before_forward(true);
    const auto loss = layer(torch::full({1, 1}, communicator->rank() + 1.0)).sum();
    run_backward({engine.get()}, {.loss = loss}, [&] { loss.backward(); });
    torch::NoGradGuard no_grad;
    layer->weight.sub_(layer->weight.grad());
  }
  double weight() const { return layer->weight.item<double>(); }

  std::shared_ptr<Communicator> communicator;
  torch::nn::Linear layer = [] {
    torch::nn::Linear made(torch::nn::LinearOptions(1, 1).bias(false));
    torch::NoGradGuard no_grad;
    made->weight.fill_(10);
    return made;
  }();
  std::shared_ptr<DistributedDataParallel> engine;
};

class LocalSGDRanks : public ::testing::TestWithParam<int> {};

TEST_P(LocalSGDRanks, AveragesEverySecondStepAndAtTheEnd) {
  run_ranks_shared(GetParam(), [n = GetParam()](const std::shared_ptr<Communicator>& comm) {
    Trainer trainer(comm);
    const double mine = comm->rank() + 1.0, mean = (n + 1) / 2.0;
    {
      LocalSGD local_sgd(trainer.engine, 2);
      trainer.step();
      local_sgd.step();
      EXPECT_EQ(trainer.weight(), 10 - mine) << "on its own";
      trainer.step();
      local_sgd.step();
      EXPECT_EQ(trainer.weight(), 10 - 2 * mean) << "averaged";
      trainer.step();
      local_sgd.step();
      EXPECT_EQ(trainer.weight(), 10 - 2 * mean - mine);
      EXPECT_EQ(local_sgd.num_steps(), 3);
    }
    EXPECT_EQ(trainer.weight(), 10 - 3 * mean) << "averaged at the end";
    trainer.step();
    EXPECT_EQ(trainer.weight(), 10 - 4 * mean) << "gradients are synchronised again";
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, LocalSGDRanks, ::testing::Values(1, 2, 3));

TEST(LocalSGD, DisabledLeavesTrainingAsItIs) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Trainer trainer(comm);
    LocalSGD local_sgd(trainer.engine, 2, false);
    trainer.step();
    local_sgd.step();
    EXPECT_EQ(trainer.weight(), 8.5);
  });
}

TEST(LocalSGD, GivesEveryoneRankZerosBuffersWhenItAverages) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    torch::nn::BatchNorm1d norm(3);
    const auto engine = std::make_shared<DistributedDataParallel>(view_of(*norm), comm);
    {
      LocalSGD local_sgd(engine, 4);
      norm->running_mean.fill_(comm->rank() + 5);
      norm->weight.data().fill_(comm->rank() + 1);
    }
    EXPECT_EQ(norm->running_mean[0].item<double>(), 5.0);
    EXPECT_EQ(norm->weight[0].item<double>(), 1.5);
  });
}

TEST(LocalSGD, LeftByAnExceptionWaitsForNobody) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Trainer trainer(comm);
    try {
      LocalSGD local_sgd(trainer.engine, 2);
      throw std::runtime_error("no more disk");
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no more disk");
    }
    EXPECT_TRUE(trainer.engine->synchronize());
  });
}

TEST(LocalSGD, RefusesStepsBelowOne) {
  Trainer trainer(single_communicator());
  for (const std::int64_t steps : {0, -3}) {
    EXPECT_THROW(LocalSGD(trainer.engine, steps), ConfigError);
  }
  EXPECT_TRUE(trainer.engine->synchronize());
}

}  // namespace
}  // namespace accelerate
