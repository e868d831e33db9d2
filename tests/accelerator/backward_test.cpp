// Which forwards and backwards ranks may run, in which order, and what becomes of the gradients.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"

namespace accelerate {
namespace {

using testing::make_net;
using testing::message_of;
using testing::Net;
using testing::on;
using testing::run_ranks_shared;
using testing::samples;

TEST(Accelerator, GradientsWithoutAnArmedForwardAreAUsageErrorWithTheCure) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    auto model = accelerator.prepare(net);
    const auto text = message_of<UsageError>([&] { accelerator.backward(net(samples(2)).mean()); });
    EXPECT_NE(text.find("past the prepared model"), std::string::npos) << text;
    EXPECT_NE(text.find("model.forward(x)"), std::string::npos) << text;
    accelerator.backward(model(samples(2)).mean());
    EXPECT_TRUE(net->in->weight.grad().defined()) << "the engine works after the mistake";
    const auto again =
        message_of<UsageError>([&] { accelerator.backward(net(samples(2)).mean()); });
    EXPECT_NE(again.find("past the prepared model"), std::string::npos)
        << "one forward arms one backward";
  });
}

TEST(Accelerator, LossBackwardByItselfIsAUsageError) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    auto model = accelerator.prepare(net);
    const auto text = message_of<UsageError>([&] { model(samples(2)).mean().backward(); });
    EXPECT_NE(text.find("accelerator.backward(loss)"), std::string::npos) << text;
  });
}

TEST(Accelerator, ARetainedGraphMayGoBackwardTwice) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    auto model = accelerator.prepare(net);
    auto loss = model(samples(4)).pow(2).mean();
    accelerator.backward(loss, {.retain_graph = true});
    const auto once = net->in->weight.grad().clone();
    accelerator.backward(loss);
    EXPECT_TRUE(net->in->weight.grad().allclose(2 * once));
  });
}

TEST(Accelerator, TorchScriptModulesTrainTogether) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    torch::jit::Module script("Scale");
    script.register_parameter("factor",
                              torch::full({1}, comm->rank() + 2.0, torch::requires_grad()), false);
    script.define("def forward(self, x):\n  return x * self.factor\n");
    auto model = accelerator.prepare(script);
    static_assert(std::is_same_v<decltype(model), PreparedScript>);
    const auto factor = model.parameters()[0];
    EXPECT_EQ(factor.item<double>(), 2.0) << "rank 0's";
    accelerator.backward(model({torch::full({1}, comm->rank() + 1.0)}).toTensor().sum());
    EXPECT_EQ(factor.grad().item<double>(), 1.5) << "the mean of 1 and 2";
  });
}

TEST(Accelerator, NoSyncLeavesGradientsLocal) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    auto model = accelerator.prepare(net);
    const auto mine = samples(4) * (comm->rank() + 1);
    {
      auto scope = accelerator.no_sync(model);
      accelerator.backward(model(mine).mean());
    }
    const auto local = net->in->weight.grad().clone();
    EXPECT_FALSE(accelerator.gather(local.unsqueeze(0))[0].allclose(
        accelerator.gather(local.unsqueeze(0))[1]));
    accelerator.backward(model(mine).mean());
    const auto both = accelerator.gather(net->in->weight.grad().unsqueeze(0));
    EXPECT_TRUE(both[0].equal(both[1]));
  });
}

TEST(Accelerator, BuffersFollowRankZeroAfterEachStep) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    torch::nn::BatchNorm1d norm(4);
    torch::nn::Sequential net(torch::nn::Linear(4, 4), norm);
    auto model = accelerator.prepare(net);
    accelerator.backward(model(samples(8) + comm->rank()).pow(2).sum());
    const auto both = accelerator.gather(norm->running_mean.unsqueeze(0));
    EXPECT_TRUE(both[0].equal(both[1]));
  });
}

torch::nn::Sequential normed() {
  return torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
}

TEST(Accelerator, AGanWithBatchNormTrainsInTheUsualOrder) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    auto g = normed(), d = normed();
    auto generator = accelerator.prepare(g), discriminator = accelerator.prepare(d);
    for (int step = 0; step < 2; ++step) {
      const auto noise = samples(8) + comm->rank();
      accelerator.backward(discriminator(samples(8) * 2).pow(2).sum());
      auto fake = generator(noise);
      accelerator.backward(discriminator(fake.detach()).pow(2).sum());
      accelerator.backward(discriminator(fake).pow(2).sum());
    }
    for (const auto& buffer : g->buffers()) {
      const auto both = accelerator.gather(buffer.reshape({1, -1}));
      EXPECT_TRUE(both[0].equal(both[1]));
    }
  });
}

TEST(Accelerator, TwoForwardsMayPrecedeTwoBackwards) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    auto net = normed();
    auto model = accelerator.prepare(net);
    auto first = model(samples(8) + comm->rank()).pow(2).sum();
    auto second = model(samples(8) - comm->rank()).pow(2).sum();
    accelerator.backward(first);
    accelerator.backward(second);
    const auto both = accelerator.gather(net->buffers()[0].reshape({1, -1}));
    EXPECT_TRUE(both[0].equal(both[1]));
  });
}

TEST(Accelerator, AForwardOfOneRankAloneDisturbsNobody) {
  run_ranks_shared(2,
                   [](const std::shared_ptr<Communicator>& comm) {
                     Accelerator accelerator(on(comm));
                     auto g = normed(), d = normed();
                     auto generator = accelerator.prepare(g),
                          discriminator = accelerator.prepare(d);
                     if (comm->rank() == 0) (void)generator(samples(8));
                     accelerator.backward(discriminator(samples(8)).pow(2).sum());
                     accelerator.backward(generator(samples(8)).pow(2).sum());
                     EXPECT_TRUE(g->parameters()[0].grad().defined());
                   },
                   {.timeout = std::chrono::seconds(5)});
}

TEST(Accelerator, AParameterUnfrozenLaterIsAUsageErrorThatNamesIt) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    net->in->weight.requires_grad_(false);
    auto model = accelerator.prepare(net);
    accelerator.backward(model(samples(4)).mean());
    net->in->weight.requires_grad_(true);
    const auto text =
        message_of<UsageError>([&] { accelerator.backward(model(samples(4)).mean()); });
    EXPECT_NE(text.find("'in.weight' was frozen"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace accelerate
