// A policy of 16 bits on a CPU that is slow in them: forwards compute in fp32, all else is as the
// policy says.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::make_net;
using testing::Net;
using testing::run_ranks_shared;
using testing::samples;
using testing::ScopedEnv;
using Weights = std::vector<at::Tensor>;

constexpr auto kVariable = "ACCELERATE_CPU_HALF";

// What two ranks have after three steps; `check` sees the model before them.
Weights train(AcceleratorOptions options, at::ScalarType own = at::kFloat,
              const std::function<void(Accelerator&, Net&, Prepared<Net>&)>& check = {}) {
  Weights weights;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    AcceleratorOptions mine = options;
    mine.communicator = comm;
    Accelerator accelerator(mine);
    Net net = make_net();
    net->to(own);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    if (check) check(accelerator, net, model);
    const auto x = samples(4) + comm->rank();
    for (int step = 0; step < 3; ++step) {
      accelerator.backward(model(x).square().mean());
      optimizer.step();
      optimizer.zero_grad();
    }
    for (const auto& [name, tensor] : accelerator.get_state_dict(model)) {
      if (comm->rank() == 0) weights.push_back(tensor.clone());
    }
  });
  return weights;
}

void expect_equal(const Weights& found, const Weights& expected) {
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GE(found.size(), 5U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type()) << i;
    EXPECT_TRUE(found[i].equal(expected[i])) << i;
  }
}

TEST(HalfOnSlowCpu, TrainsToTheBitsOfFp32AndStillReportsThePolicy) {
  const ScopedEnv forced(kVariable, "float32");
  const Weights exact = train({.mixed_precision = MixedPrecision::no});
  for (const auto precision : {MixedPrecision::bf16, MixedPrecision::fp16}) {
    const auto found =
        train({.mixed_precision = precision}, at::kFloat,
              [&](Accelerator& accelerator, Net& net, Prepared<Net>&) {
                EXPECT_EQ(accelerator.mixed_precision(), precision);
                EXPECT_TRUE(accelerator.native_amp());
                EXPECT_EQ(accelerator.scaler() != nullptr, precision == MixedPrecision::fp16);
                const auto scope = accelerator.autocast();
                EXPECT_EQ(net->in(torch::ones({1, 4})).scalar_type(), at::kFloat);
              });
    expect_equal(found, exact);
  }
  const ScopedEnv native(kVariable, "native");
  const auto rounded = train({.mixed_precision = MixedPrecision::bf16});
  EXPECT_FALSE(rounded[0].equal(exact[0])) << "native computes in bf16";
}

// What works in bf16 works in fp32: weights of 16 bits meet inputs of 32 as autocast has them meet.
TEST(HalfOnSlowCpu, ParametersThatTheUserMadeBf16StayBf16) {
  const ScopedEnv forced(kVariable, "float32");
  const auto weights = train({.mixed_precision = MixedPrecision::bf16}, at::kBFloat16,
                             [](Accelerator&, Net& net, Prepared<Net>&) {
                               EXPECT_EQ(net->in->weight.scalar_type(), at::kBFloat16);
                             });
  for (const auto& tensor : weights) EXPECT_EQ(tensor.scalar_type(), at::kBFloat16);
}

TEST(HalfOnSlowCpu, ScriptsComputeInFp32) {
  const ScopedEnv forced(kVariable, "float32");
  Accelerator accelerator(
      {.mixed_precision = MixedPrecision::bf16, .communicator = single_communicator()});
  torch::jit::Module script("net");
  script.register_parameter("w", torch::ones({3, 2}), false);
  script.define("def forward(self, x):\n  y = torch.mm(x, self.w)\n  return y, y.dtype == 6\n");
  auto model = accelerator.prepare(script);
  for (int call = 0; call < 3; ++call) {  // The later ones run optimised.
    EXPECT_TRUE(model({torch::ones({4, 3})}).toTuple()->elements()[1].toBool());
  }
}

AcceleratorOptions sharded(const MixedPrecisionPolicy& policy) {
  FullyShardedDataParallelPlugin plugin;
  plugin.mixed_precision_policy = policy;
  return {.fsdp_plugin = plugin};
}

TEST(HalfOnSlowCpu, UnitsComputeInFp32AndTravelAsThePolicySays) {
  const ScopedEnv forced(kVariable, "float32");
  const auto exact = train(sharded({.reduce_dtype = DType::bf16}));
  const auto in_fp32 = [](Accelerator&, Net& net, Prepared<Net>& model) {
    EXPECT_EQ(net->in->weight.scalar_type(), at::kFloat);
    EXPECT_EQ(model.local_parameters()[0].scalar_type(), at::kFloat);
  };
  // Gradients travel in reduce_dtype, and without it in param_dtype.
  expect_equal(train(sharded({.param_dtype = DType::bf16}), at::kFloat, in_fp32), exact);
  expect_equal(
      train(sharded({.param_dtype = DType::f16, .reduce_dtype = DType::bf16}), at::kFloat, in_fp32),
      exact);
  EXPECT_FALSE(
      train(sharded({.param_dtype = DType::bf16, .reduce_dtype = DType::f32}))[0].equal(exact[0]));
}

// With buffers in 16 bits too, and weights that the user made bf16.
TEST(HalfOnSlowCpu, ShardedModelsKeepBuffersAndWeightsOfTheUsersType) {
  const ScopedEnv forced(kVariable, "float32");
  AcceleratorOptions options{.mixed_precision = MixedPrecision::bf16,
                             .fsdp_plugin = FullyShardedDataParallelPlugin{}};
  const auto weights = train(options, at::kBFloat16, [](Accelerator&, Net& net, Prepared<Net>& m) {
    EXPECT_EQ(net->scale.scalar_type(), at::kBFloat16);
    EXPECT_EQ(m.local_parameters()[0].scalar_type(), at::kFloat) << "a master weight";
  });
  const ScopedEnv native(kVariable, "native");
  const auto expected = train(options, at::kBFloat16);
  ASSERT_EQ(weights.size(), expected.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_EQ(weights[i].scalar_type(), expected[i].scalar_type()) << "in files";
    EXPECT_TRUE(weights[i].to(at::kFloat).allclose(expected[i].to(at::kFloat), 5e-2, 5e-2));
  }
}

// Ranks that disagree would send gradients of two types.
TEST(HalfOnSlowCpu, OneRankThatComputesInFp32MakesAllDoSo) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    static std::mutex one_at_a_time;  // The environment is the process's.
    const auto accelerator = [&] {
      const std::lock_guard lock(one_at_a_time);
      const ScopedEnv own(kVariable, comm->rank() == 1 ? "float32" : "native");
      AcceleratorOptions options = sharded({.param_dtype = DType::bf16});
      options.communicator = comm;
      return std::make_unique<Accelerator>(options);
    }();
    Net net = make_net();
    auto model = accelerator->prepare(net);
    EXPECT_EQ(net->in->weight.scalar_type(), at::kFloat);
    accelerator->backward(model(samples(2)).sum());
  });
}

}  // namespace
}  // namespace accelerate
