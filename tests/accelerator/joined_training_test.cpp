// join_uneven_inputs through the public face: loaders, optimizers, losses scaled, exceptions.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/replicated/sync_batch_norm.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::run_ranks_shared;

struct Regression {
  explicit Regression(std::shared_ptr<Communicator> comm, AcceleratorOptions options = {})
      : accelerator([&] {
          options.communicator = std::move(comm);
          return options;
        }()) {
    torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) parameter.fill_(0.5);
  }
  Accelerator accelerator;
  torch::nn::Linear net{torch::nn::LinearOptions(1, 1)};
};

at::Tensor numbers(std::int64_t n) {
  return torch::arange(n, at::kFloat).view({n, 1});
}

struct Uneven {
  int ranks;
  std::int64_t samples, batch_size;
  bool even;
  std::vector<std::vector<std::int64_t>> expected;  // batch sizes, rank by rank
};

class BatchSizes : public ::testing::TestWithParam<Uneven> {};

// Upstream's test_distributed_data_loop.py, and more ranks.
TEST_P(BatchSizes, AreThoseOfTheOriginalInsideAndOutsideOfTheScope) {
  const auto& [n, count, batch_size, even, expected] = GetParam();
  run_ranks_shared(n, [&, count = count, batch_size = batch_size, even = even,
                       expected = expected](const std::shared_ptr<Communicator>& comm) {
    Regression training(comm, {.dataloader_config = {.even_batches = !even}});
    torch::optim::SGD sgd(training.net->parameters(), 0.01);
    auto batches = make_data_loader(numbers(count), {.batch_size = batch_size});
    auto [model, optimizer, loader] = training.accelerator.prepare(training.net, sgd, batches);
    std::vector<std::int64_t> sizes;
    {
      auto scope = training.accelerator.join_uneven_inputs({.even_batches = even}, model);
      for (auto& batch : loader) {
        sizes.push_back(batch.size(0));
        training.accelerator.backward(model(batch).pow(2).mean());
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    EXPECT_EQ(sizes, expected[static_cast<std::size_t>(comm->rank())]);
    std::int64_t samples = 0;
    for (auto& batch : loader) samples += batch.size(0);
    const auto counts = training.accelerator.gather(torch::tensor({samples}));
    const bool equal = (counts == counts[0]).all().item<bool>();
    EXPECT_EQ(equal, !even || count % (batch_size * n) == 0) << "even_batches is restored";
  });
}

INSTANTIATE_TEST_SUITE_P(Original, BatchSizes,
                         ::testing::Values(Uneven{2, 3, 1, true, {{1, 1}, {1, 1}}},
                                           Uneven{2, 7, 2, true, {{2, 2}, {2, 2}}},
                                           Uneven{2, 3, 1, false, {{1, 1}, {1}}},
                                           Uneven{2, 7, 2, false, {{2, 2}, {2, 1}}},
                                           Uneven{3, 5, 1, false, {{1, 1}, {1, 1}, {1}}},
                                           Uneven{4, 5, 1, false, {{1, 1}, {1}, {1}, {1}}}));

class JoinedTraining : public ::testing::TestWithParam<std::tuple<int, MixedPrecision>> {};

// Adam: its moments must agree afterwards as well, or the next epoch would drift apart.
TEST_P(JoinedTraining, LeavesModelsAndOptimizersEqualOnAllRanksForTheNextEpoch) {
  const auto [n, precision] = GetParam();
  run_ranks_shared(n, [precision = precision](const std::shared_ptr<Communicator>& comm) {
    Regression training(
        comm, {.mixed_precision = precision, .dataloader_config = {.even_batches = false}});
    auto& accelerator = training.accelerator;
    torch::optim::Adam adam(training.net->parameters(), 0.05);
    auto batches = make_data_loader(numbers(4 * comm->size() + 1), {.batch_size = 1});
    auto [model, optimizer, loader] = accelerator.prepare(training.net, adam, batches);
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto scope = accelerator.join_uneven_inputs({}, model);
      for (auto& batch : loader) {
        accelerator.backward((model(batch) - 2 * batch).pow(2).mean());
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    for (int step = 0; step < 2; ++step) {
      accelerator.backward(model(numbers(4)).mean());
      optimizer.step();
      optimizer.zero_grad();
    }
    for (const auto& parameter : model.parameters()) {
      const auto all = accelerator.gather(parameter.detach().reshape({1, -1}));
      for (int rank = 1; rank < comm->size(); ++rank) EXPECT_TRUE(all[rank].equal(all[0]));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, JoinedTraining,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(MixedPrecision::no,
                                                              MixedPrecision::fp16)));

TEST(JoinUnevenInputs, AccumulatesOverUnequalNumbersOfMicroBatches) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Regression training(
        comm, {.gradient_accumulation_steps = 2, .dataloader_config = {.even_batches = false}});
    auto& accelerator = training.accelerator;
    torch::optim::SGD sgd(training.net->parameters(), 0.01);
    auto batches = make_data_loader(numbers(9), {.batch_size = 1});
    auto [model, optimizer, loader] = accelerator.prepare(training.net, sgd, batches);
    {
      auto scope = accelerator.join_uneven_inputs({}, model);
      for (auto& batch : loader) {
        auto window = accelerator.accumulate(model);
        accelerator.backward(model(batch).pow(2).mean());
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    const auto weights = accelerator.gather(training.net->weight.detach());
    EXPECT_TRUE(weights[0].equal(weights[1]));
  });
}

TEST(JoinUnevenInputs, AnExceptionOfOneRankHoldsNobodyUp) {
  run_ranks_shared(
      3,
      [](const std::shared_ptr<Communicator>& comm) {
        Regression training(comm);
        auto model = training.accelerator.prepare(training.net);
        try {
          auto scope = training.accelerator.join_uneven_inputs({.even_batches = false}, model);
          for (int step = 0; step < 4 - comm->rank(); ++step) {
            if (comm->rank() == 1 && step == 1) throw std::runtime_error("bad sample");
            training.accelerator.backward(model(numbers(2)).mean());
          }
        } catch (const CommError& error) {
          EXPECT_NE(std::string(describe(error)).find("join_uneven_inputs because of an exception"),
                    std::string::npos)
              << describe(error);
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "bad sample");
        }
      },
      {.timeout = std::chrono::seconds(10)});
}

TEST(JoinUnevenInputs, BadInputIsAUsageErrorWithTheCure) {
  Accelerator accelerator({.communicator = single_communicator()});
  torch::nn::Linear net(1, 1);
  SyncBatchNorm norm(torch::nn::BatchNormOptions(3));
  auto model = accelerator.prepare(net);
  auto synchronised = accelerator.prepare(norm);
  const JoinOptions uneven{.even_batches = false};
  EXPECT_NE(message_of<UsageError>([&] {
              (void)accelerator.join_uneven_inputs(uneven);
            }).find("no model"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] {
              (void)accelerator.join_uneven_inputs(uneven, synchronised);
            }).find("SyncBatchNorm"),
            std::string::npos);
  EXPECT_NO_THROW((void)accelerator.join_uneven_inputs({.even_batches = true}, synchronised));
  auto scope = accelerator.join_uneven_inputs(uneven, model);
  EXPECT_NE(message_of<UsageError>([&] {
              (void)accelerator.join_uneven_inputs(uneven, model);
            }).find("give all models to one scope"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] {
              accelerator.backward(model(numbers(2)).sum(), {.num_items = 2});
            }).find("leave num_items out"),
            std::string::npos);
}

}  // namespace
}  // namespace accelerate
