// Two ranks train to the same bits whatever they talk through.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks_shared;

struct AlikeTraining {
  std::string name;
  MixedPrecision precision = MixedPrecision::no;
  int accumulation = 1;
  bool leaves_out = false;  ///< Every other step uses only a part of the model.
  DDPCommunicationHookType hook = DDPCommunicationHookType::no;
  bool dispatches = false;
};

// Large enough that its gradients lie in memory of the group; the same numbers each time.
struct AlikeNetImpl : torch::nn::Module {
  AlikeNetImpl() {
    int which = 0;
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) {
      const auto numbers = torch::arange(parameter.numel(), torch::kDouble) + ++which;
      parameter.copy_((numbers.sin() * 0.1).view_as(parameter));
    }
  }
  at::Tensor forward(const at::Tensor& x, bool leaves_out) {
    const auto hidden = torch::relu(first(x));
    return leaves_out ? last(hidden) : last(hidden + torch::tanh(middle(hidden)));
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(40, 200));
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(200, 200));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(200, 4));
};
TORCH_MODULE(AlikeNet);

std::vector<at::Tensor> train(const AlikeTraining& training,
                              const std::shared_ptr<Communicator>& comm) {
  Accelerator accelerator(
      {.gradient_accumulation_steps = training.accumulation,
       .mixed_precision = training.precision,
       .dataloader_config = {.dispatch_batches = training.dispatches},
       .ddp = {.find_unused_parameters = training.leaves_out, .comm_hook = training.hook},
       .communicator = comm});
  AlikeNet net;
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto samples = (torch::arange(96 * 40, torch::kFloat) * 0.7).sin().view({96, 40});
  auto [model, optimizer, loader] =
      accelerator.prepare(net, sgd, make_data_loader(samples, {.batch_size = 8}));
  int step = 0;
  for (auto& x : loader) {
    const auto window = accelerator.accumulate(model);
    accelerator.backward(model(x, training.leaves_out && ++step % 2 == 0).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  return net->parameters();
}

std::vector<at::Tensor> weights_after(const AlikeTraining& training, Engine engine) {
  std::vector<at::Tensor> of_first;
  run_ranks_shared(2,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     const auto weights = train(training, comm);
                     if (comm->rank() == 0) of_first = weights;
                   },
                   {.engine = engine});
  return of_first;
}

class EnginesTrainAlike : public ::testing::TestWithParam<AlikeTraining> {};

TEST_P(EnginesTrainAlike, ToTheSameBits) {
  const auto gloo = weights_after(GetParam(), Engine::gloo);
  const auto shared_memory = weights_after(GetParam(), Engine::shared_memory);
  const AlikeNet untrained;
  ASSERT_EQ(gloo.size(), 6U);
  ASSERT_EQ(shared_memory.size(), gloo.size());
  for (std::size_t i = 0; i < gloo.size(); ++i) {
    EXPECT_TRUE(gloo[i].equal(shared_memory[i])) << "parameter " << i;
    EXPECT_FALSE(gloo[i].equal(untrained->parameters()[i])) << "parameter " << i;
    EXPECT_TRUE(gloo[i].isfinite().all().item<bool>()) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EnginesTrainAlike,
    ::testing::Values(AlikeTraining{.name = "Fp32"},
                      AlikeTraining{.name = "Bf16", .precision = MixedPrecision::bf16},
                      AlikeTraining{.name = "Fp16WithScaler", .precision = MixedPrecision::fp16},
                      AlikeTraining{.name = "Accumulation", .accumulation = 3},
                      AlikeTraining{.name = "UnusedParameters", .leaves_out = true},
                      AlikeTraining{.name = "Fp16Hook", .hook = DDPCommunicationHookType::fp16},
                      AlikeTraining{.name = "Bf16Hook", .hook = DDPCommunicationHookType::bf16},
                      AlikeTraining{.name = "PowerSgdHook",
                                    .hook = DDPCommunicationHookType::power_sgd},
                      AlikeTraining{.name = "DispatchingLoader", .dispatches = true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace accelerate
