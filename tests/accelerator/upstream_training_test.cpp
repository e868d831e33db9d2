// What upstream's own test_script.py and test_sync.py check of training, on 1 to 4 ranks: N ranks
// train what one process trains, and gradients agree exactly when they are to be synchronised.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

constexpr std::int64_t kLength = 96, kUpstreamBatch = 2;

// y = a x + b, from a = 0, b = 0 on; upstream's RegressionModel.
struct RegressionImpl : torch::nn::Module {
  RegressionImpl() {
    a = register_parameter("a", torch::zeros({1}));
    b = register_parameter("b", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) { return x * a + b; }
  at::Tensor a, b;
};
TORCH_MODULE(Regression);

std::pair<at::Tensor, at::Tensor> regression_data() {
  const auto x = torch::sin(torch::arange(kLength, at::kDouble) * 1.3).to(at::kFloat);
  return {x,
          2 * x + 3 + 0.1 * torch::cos(torch::arange(kLength, at::kDouble) * 2.1).to(at::kFloat)};
}

struct TrainingOptions {
  std::int64_t batch_size = kUpstreamBatch;
  bool split_batches = false;
  bool dispatch_batches = false;
  int accumulation = 1;
  bool sync_each_batch = false;
  MixedPrecision precision = MixedPrecision::no;
};

AcceleratorOptions accelerator_options(const TrainingOptions& options,
                                       const std::shared_ptr<Communicator>& comm) {
  return {.mixed_precision = options.precision,
          .gradient_accumulation_plugin =
              GradientAccumulationPlugin{.num_steps = options.accumulation,
                                         .sync_each_batch = options.sync_each_batch},
          .dataloader_config = {.split_batches = options.split_batches,
                                .dispatch_batches = options.dispatch_batches,
                                .data_seed = 42},
          .communicator = comm};
}

// Weights {a, b} after three epochs.
at::Tensor train(const TrainingOptions& options, const std::shared_ptr<Communicator>& comm) {
  Accelerator accelerator(accelerator_options(options, comm));
  Regression net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto batches =
      make_data_loader(regression_data(), {.batch_size = options.batch_size, .shuffle = true});
  auto [model, optimizer, loader] = accelerator.prepare(net, sgd, batches);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto& [x, y] : loader) {
      const auto window = accelerator.accumulate(model);
      accelerator.backward(torch::mse_loss(model(x), y));
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  return torch::cat({net->a, net->b}).detach();
}

void expect_close(const at::Tensor& ours, const at::Tensor& theirs, double tolerance) {
  EXPECT_TRUE(ours.allclose(theirs, tolerance, tolerance)) << ours << theirs;
}

class Ranks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OneToFour, Ranks, ::testing::Values(1, 2, 3, 4));

// Ranks with batches of 12 / n, one process with batches of 12: 96 samples divide by all of them.
TEST_P(Ranks, TrainWhatOneProcessTrainsInEveryPrecision) {
  const int ranks = GetParam();
  for (const auto& [precision, tolerance] :
       {std::pair{MixedPrecision::no, 1e-5}, std::pair{MixedPrecision::bf16, 1e-2},
        std::pair{MixedPrecision::fp16, 1e-2}}) {
    const auto alone = train({.batch_size = 12, .precision = precision}, single_communicator());
    run_ranks_shared(ranks, [&, tolerance = tolerance, precision = precision](const auto& comm) {
      expect_close(train({.batch_size = 12 / ranks, .precision = precision}, comm), alone,
                   tolerance);
      expect_close(train({.batch_size = 12, .split_batches = true, .precision = precision}, comm),
                   alone, tolerance);
      expect_close(train({.batch_size = 12,
                          .split_batches = true,
                          .dispatch_batches = true,
                          .precision = precision},
                         comm),
                   alone, tolerance);
    });
  }
}

TEST_P(Ranks, AccumulatedMicroBatchesTrainWhatOneLargeBatchTrains) {
  const int ranks = GetParam();
  const auto alone = train({.batch_size = 24}, single_communicator());
  for (const bool each_batch : {false, true}) {
    run_ranks_shared(ranks, [&](const auto& comm) {
      expect_close(
          train({.batch_size = 12 / ranks, .accumulation = 2, .sync_each_batch = each_batch}, comm),
          alone, 1e-5);
    });
  }
}

// The matrix of test_sync.py: in each micro-batch the ranks' gradients are equal exactly when they
// are to be, and then they are the mean over all that the ranks have seen.
TEST_P(Ranks, GradientsAgreeExactlyWhenTheyAreSynchronised) {
  const int ranks = GetParam();
  for (int bits = 0; bits < 8; ++bits) {
    const TrainingOptions options{
        .batch_size = (bits & 1) != 0 ? kUpstreamBatch * ranks : kUpstreamBatch,
        .split_batches = (bits & 1) != 0,
        .dispatch_batches = (bits & 2) != 0,
        .accumulation = 2,
        .sync_each_batch = (bits & 4) != 0};
    run_ranks_shared(ranks, [&](const auto& comm) {
      Accelerator accelerator(accelerator_options(options, comm));
      Regression net, whole;
      auto batches =
          make_data_loader(regression_data(), {.batch_size = options.batch_size, .shuffle = true});
      auto [model, loader] = accelerator.prepare(net, batches);
      std::size_t index = 0;
      for (auto& [x, y] : loader) {
        const auto window = accelerator.accumulate(model);
        accelerator.backward(torch::mse_loss(model(x), y));
        const auto all_x = accelerator.gather(x), all_y = accelerator.gather(y);
        (torch::mse_loss(whole(all_x), all_y) / 2).backward();
        const bool due = ++index % 2 == 0 || index == loader.size();
        EXPECT_EQ(accelerator.sync_gradients(), due);
        const auto everyone = accelerator.gather(net->a.grad());
        const bool equal = everyone.eq(everyone[0]).all().template item<bool>();
        EXPECT_EQ(equal, due || options.sync_each_batch || ranks == 1) << "bits " << bits;
        if (!due) continue;
        expect_close(net->a.grad(), whole->a.grad(), 1e-5);
        for (auto* leaf : {&net->a, &net->b, &whole->a, &whole->b}) leaf->mutable_grad().reset();
      }
    });
  }
}

TEST_P(Ranks, NoSyncAlternatingWithSynchronisedBackwards) {
  run_ranks_shared(GetParam(), [](const auto& comm) {
    Accelerator accelerator({.communicator = comm});
    Regression net;
    auto model = accelerator.prepare(net);
    for (int i = 0; i < 4; ++i) {
      const auto x = torch::full({2}, comm->rank() + i + 1.0);
      const auto backward = [&] { accelerator.backward(model(x).sum()); };
      if (i % 2 == 0) {
        const auto scope = accelerator.no_sync(model);
        backward();
      } else {
        backward();
      }
      const auto everyone = accelerator.gather(net->a.grad());
      EXPECT_EQ(everyone.eq(everyone[0]).all().template item<bool>(),
                i % 2 == 1 || comm->size() == 1);
    }
  });
}

// test_dataloader_break: a loop inside a loop, left early; the state always speaks of the
// innermost.
TEST_P(Ranks, ABrokenInnerLoopGivesTheOuterLoaderBack) {
  run_ranks_shared(GetParam(), [](const auto& comm) {
    Accelerator accelerator({.communicator = comm});
    auto outer_batches = make_data_loader(torch::arange(10 * comm->size()), {.batch_size = 2});
    auto inner_batches = make_data_loader(torch::arange(20 * comm->size()), {.batch_size = 4});
    auto [outer, inner] = accelerator.prepare(outer_batches, inner_batches);
    const auto& state = *accelerator.gradient_state();
    std::size_t index = 0;
    for ([[maybe_unused]] auto& batch : outer) {
      EXPECT_EQ(state.depth(), 1u);
      EXPECT_EQ(state.end_of_dataloader(), ++index == outer.size());
      for ([[maybe_unused]] auto& other : inner) {
        EXPECT_EQ(state.depth(), 2u);
        EXPECT_FALSE(state.end_of_dataloader());
        break;
      }
      EXPECT_EQ(state.depth(), 1u);
      EXPECT_EQ(state.end_of_dataloader(), index == outer.size());
    }
    EXPECT_FALSE(state.in_dataloader());
  });
}

// After the inner loop's last batch a window would be complete; the outer loader's is not.
TEST_P(Ranks, AStepOfADifferentLengthPerEpochStillSynchronisesAtTheEnd) {
  run_ranks_shared(GetParam(), [](const auto& comm) {
    Accelerator accelerator({.gradient_accumulation_steps = 3, .communicator = comm});
    auto batches = make_data_loader(torch::arange(8 * comm->size()), {.batch_size = 1});
    auto loader = accelerator.prepare(batches);
    std::string trace;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for ([[maybe_unused]] auto& batch : loader) {
        const auto window = accelerator.accumulate();
        trace += accelerator.sync_gradients() ? 'T' : 'F';
      }
    }
    EXPECT_EQ(trace, "FFTFFTFTFFTFFTFT");
  });
}

}  // namespace
}  // namespace accelerate
