// The training loop on a GPU: placement, prefetch, precision, optimizers, clipping, a step as a
// graph.
#include <functional>
#include <memory>
#include <string>

#include "tests/gpu/gpu.h"
#include "tests/support/supervised.h"

namespace accelerate {
namespace {

using testing::alone;
using testing::distance;
using testing::kTolerance;
using testing::made_with;
using testing::MakeOptimizer;
using testing::rows;
using testing::Sample;
using testing::test_device;

torch::nn::Sequential make_net() {
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
  testing::fill(*net);
  return net;
}

const MakeOptimizer kAdamW = made_with<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01));

struct TrainOptions {
  MakeOptimizer optimizer = kAdamW;
  AcceleratorOptions accelerator = {};
  bool graphed = false;
};

// Weights after some steps, on the CPU.
std::vector<at::Tensor> train(const TrainOptions& options) {
  Accelerator accelerator(options.accelerator);
  auto net = make_net();
  auto raw = options.optimizer(net->parameters());
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(*raw);
  const auto step = [&](Sample& sample) {
    const auto loss = torch::mse_loss(model(sample.x), sample.y);
    accelerator.backward(loss);
    accelerator.clip_grad_norm_(model.parameters(), 0.1);
    optimizer.step();
    optimizer.zero_grad();
    return loss.detach();
  };
  GraphedStep recorded(accelerator, step);
  for (int i = 0; i < 12; ++i) {
    Sample sample{rows(6, i).to(accelerator.device()), {}};
    sample.y = sample.x.sum(1, true).sin();
    for (auto& group : raw->param_groups()) group.options().set_lr(i < 8 ? 0.01 : 0.005);
    const auto loss = options.graphed ? recorded(sample) : step(sample);
    EXPECT_EQ(loss.device(), accelerator.device());
  }
  if (options.graphed && accelerator.device().is_cuda()) {
    EXPECT_TRUE(recorded.is_captured()) << recorded.reason();
  }
  return testing::weights_of(*net);
}

AcceleratorOptions on_cpu(AcceleratorOptions options = {}) {
  options.cpu = true;
  options.communicator = single_communicator();
  return options;
}

TEST(GpuPlacement, PutsModelsOptimizersAndBatchesOnTheDevice) {
  NEED_DEVICE();
  Accelerator accelerator(alone());
  ASSERT_EQ(accelerator.device(), test_device());
  auto net = make_net();
  torch::optim::AdamW adamw(net->parameters());
  auto [model, optimizer, loader] =
      accelerator.prepare(net, adamw, make_data_loader(rows(12), {.batch_size = 4}));
  for (const auto& parameter : model.parameters()) EXPECT_EQ(parameter.device(), test_device());
  int batches = 0;
  for (auto& batch : loader) {
    EXPECT_EQ(batch.device(), test_device());
    accelerator.backward(model(batch).sum());
    optimizer.step();
    ++batches;
  }
  EXPECT_EQ(batches, 3);
  for (const auto& parameter : net->parameters()) {
    auto& state = static_cast<torch::optim::AdamWParamState&>(
        *adamw.state().at(parameter.unsafeGetTensorImpl()));
    EXPECT_EQ(state.exp_avg().device(), test_device());
  }
}

// Batches that workers send on a stream of their own are complete when the loop computes with them.
TEST(GpuPrefetch, BatchesAreCompleteWhenTheyAreUsed) {
  NEED_DEVICE();
  Accelerator accelerator(alone());
  constexpr std::int64_t kRows = 4096, kColumns = 2048, kBatch = 256;
  const auto data =
      torch::arange(kRows, at::kFloat).view({kRows, 1}).expand({kRows, kColumns}).contiguous();
  for (const int workers : {0, 2}) {
    for (const bool pinned : {false, true}) {
      auto loader = accelerator.prepare(make_data_loader(
          data, {.batch_size = kBatch, .num_workers = workers, .pin_memory = pinned}));
      at::Tensor sums = torch::zeros({}, at::TensorOptions(at::kDouble).device(test_device()));
      std::int64_t first = 0;
      for (int epoch = 0; epoch < 2; ++epoch) {
        first = 0;
        for (auto& batch : loader) {
          ASSERT_EQ(batch.device(), test_device());
          const auto expected = torch::arange(first, first + kBatch, batch.options()).view({-1, 1});
          sums += (batch - expected).abs().sum().to(at::kDouble);  // No wait for the device.
          first += kBatch;
        }
      }
      EXPECT_EQ(first, kRows);
      EXPECT_EQ(sums.item<double>(), 0) << workers << " workers, pinned " << pinned;
    }
  }
}

class GpuOptimizers : public ::testing::TestWithParam<std::pair<const char*, MakeOptimizer>> {};

TEST_P(GpuOptimizers, StepAsOnTheCpu) {
  NEED_DEVICE();
  const auto expected = train({.optimizer = GetParam().second, .accelerator = on_cpu()});
  const auto found = train({.optimizer = GetParam().second, .accelerator = alone()});
  EXPECT_LE(distance(found, expected), kTolerance);
}

TEST_P(GpuOptimizers, StepInAGraphAsTheyDoByThemselves) {
  NEED_DEVICE();
  const auto expected = train({.optimizer = GetParam().second, .accelerator = alone()});
  const auto found =
      train({.optimizer = GetParam().second, .accelerator = alone(), .graphed = true});
  EXPECT_LE(distance(found, expected), 1e-5);  // The rate is read in fp32.
}

INSTANTIATE_TEST_SUITE_P(
    Of, GpuOptimizers,
    ::testing::Values(
        std::pair<const char*, MakeOptimizer>("AdamW", kAdamW),
        std::pair<const char*, MakeOptimizer>(
            "Adam", made_with<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true))),
        std::pair<const char*, MakeOptimizer>(
            "Adagrad", made_with<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01))),
        std::pair<const char*, MakeOptimizer>(
            "Sgd", made_with<torch::optim::SGD>(torch::optim::SGDOptions(0.01).momentum(0.9)))),
    [](const auto& info) { return std::string(info.param.first); });

TEST(GpuClipping, ScalesByTheNormWithoutReadingIt) {
  NEED_DEVICE();
  Accelerator accelerator(alone());
  auto net = make_net();
  auto model = accelerator.prepare(net);
  accelerator.backward(model(rows(6).to(test_device())).square().sum() * 100);
  const auto before = accelerator.clip_grad_norm_(model.parameters(), 0.25);
  EXPECT_EQ(before.device(), test_device());
  EXPECT_GT(before.item<double>(), 0.25);
  EXPECT_NEAR(accelerator.clip_grad_norm_(model.parameters(), INFINITY).item<double>(), 0.25, 1e-4);
}

TEST(GpuPrecision, Bf16ComputesInBf16AndTrainsNearFp32) {
  NEED_DEVICE();
  Accelerator accelerator(alone({.mixed_precision = MixedPrecision::bf16}));
  {
    const auto scope = accelerator.autocast();
    const auto one = torch::ones({8, 8}, test_device());
    EXPECT_EQ(torch::mm(one, one).scalar_type(), at::kBFloat16);
  }
  const auto half = train({.accelerator = alone({.mixed_precision = MixedPrecision::bf16})});
  const auto full = train({.accelerator = alone()});
  EXPECT_LE(distance(half, full), 0.1);
  EXPECT_GT(distance(half, full), 0);
}

TEST(GpuPrecision, TheScalerSkipsAStepThatOverflowsAndGoesOn) {
  NEED_DEVICE();
  Accelerator accelerator(
      alone({.mixed_precision = MixedPrecision::fp16, .grad_scaler = {.init_scale = 1024}}));
  auto net = make_net();
  torch::optim::SGD sgd(net->parameters(), 0.01);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto x = rows(6).to(test_device());
  for (const bool overflows : {false, true, false}) {
    const auto before = testing::weights_of(*net);
    accelerator.backward(model(x).square().mean());
    if (overflows) net->parameters()[0].mutable_grad().fill_(INFINITY);
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_EQ(optimizer.step_was_skipped(), overflows);
    EXPECT_EQ(distance(testing::weights_of(*net), before) == 0, overflows);
  }
  EXPECT_EQ(accelerator.scaler()->get_scale(), 512);
}

// Dropout in a graph draws new numbers in each replay.
TEST(GpuGraph, DrawsNewNumbersInEachReplay) {
  NEED_GPU();
  Accelerator accelerator(alone());
  GraphedStep step(accelerator, [&](at::Tensor& x) { return torch::dropout(x, 0.5, true); });
  const auto x = torch::ones({1024}, test_device());
  for (int i = 0; i < 4; ++i) (void)step(x);
  ASSERT_TRUE(step.is_captured()) << step.reason();
  EXPECT_FALSE(step(x).equal(step(x)));
}

TEST(GpuGraph, TrainsInBf16WithBatchNorm) {
  NEED_GPU();
  const auto run = [](bool graphed) {
    Accelerator accelerator(alone({.mixed_precision = MixedPrecision::bf16}));
    torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Linear(8, 1));
    testing::fill(*net);
    torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.01));
    auto [model, optimizer] = accelerator.prepare(net, adamw);
    const auto step = [&, &model = model, &optimizer = optimizer](at::Tensor& x) {
      optimizer.zero_grad();  // At the beginning, as some write it.
      const auto loss = model(x).square().mean();
      accelerator.backward(loss);
      optimizer.step();
      return loss.detach();
    };
    GraphedStep recorded(accelerator, step);
    for (int i = 0; i < 10; ++i) {
      auto x = rows(8, i).to(test_device());
      graphed ? (void)recorded(x) : (void)step(x);
    }
    EXPECT_EQ(recorded.is_captured(), graphed) << recorded.reason();
    return testing::weights_of(*net);
  };
  EXPECT_LE(distance(run(true), run(false)), 1e-3);
}

TEST(GpuGraph, ABatchWithATensorOnTheCpuRunsAsItIs) {
  NEED_GPU();
  Accelerator accelerator(alone());
  GraphedStep step(accelerator, [&](Sample& sample) { return sample.x * sample.y; });
  for (int i = 0; i < 6; ++i) {
    const Sample sample{torch::ones({8}, test_device()), torch::tensor(static_cast<float>(i))};
    EXPECT_EQ(step(sample).sum().item<double>(), 8 * i);
  }
  EXPECT_NE(step.reason().find("a tensor of the batch is on cpu"), std::string::npos);
}

// A capture that failed leaves the process as it was: memory comes back, numbers are drawn, and
// another step can be recorded.
TEST(GpuGraph, AStepThatReadsAValueRunsAsItIsAndHarmsNothing) {
  NEED_GPU();
  Accelerator accelerator(alone());
  double seen = 0;
  GraphedStep step(accelerator, [&](at::Tensor& x) {
    const auto drawn = torch::dropout(x, 0.0, true);
    seen += drawn.sum().item<double>();
    return drawn * 2;
  });
  const auto x = torch::ones({8}, test_device());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(step(x).sum().item<double>(), 16);
  EXPECT_FALSE(step.is_captured());
  EXPECT_NE(step.reason().find("reads a value of the device"), std::string::npos) << step.reason();
  EXPECT_EQ(seen, 6 * 8);

  (void)torch::rand({8}, test_device());
  GraphedStep another(accelerator, [&](at::Tensor& given) { return given + 1; });
  for (int i = 0; i < 6; ++i) EXPECT_EQ(another(x).sum().item<double>(), 16);
  EXPECT_TRUE(another.is_captured()) << another.reason();

  clear_device_cache();
  const auto before = device_memory(test_device());
  constexpr std::int64_t kRows = 64, kColumns = 1 << 18;  // 1 MiB a row, freed across streams.
  auto loader = accelerator.prepare(make_data_loader(
      torch::ones({kRows, kColumns}), {.batch_size = 8, .num_workers = 2, .pin_memory = true}));
  for (auto& batch : loader) (void)batch.sum();
  torch::cuda::synchronize();
  clear_device_cache();
  const auto after = device_memory(test_device());
  EXPECT_LE(after.allocated_bytes - before.allocated_bytes, 1 << 20);
  EXPECT_LE(after.reserved_bytes - before.reserved_bytes, 32 << 20);
}

}  // namespace
}  // namespace accelerate
