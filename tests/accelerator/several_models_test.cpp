// Several models, optimizers and loaders in one loop: adversarial training, evaluation in between.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <deque>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

// Two networks that are stepped one after the other: clipping the first must not take the gradients
// of the second, which come later, for unscaled.
TEST(SeveralModels, InTurnAreClippedAndSteppedAsWithoutScaling) {
  const auto train = [](MixedPrecision precision) {
    Accelerator accelerator({.mixed_precision = precision,
                             .grad_scaler = {.init_scale = 1024},
                             .communicator = single_communicator()});
    std::vector<torch::nn::Linear> nets;
    std::deque<torch::optim::SGD> sgds;
    std::vector<Prepared<torch::nn::Linear>> models;
    std::vector<AcceleratedOptimizer> optimizers;
    for (int i = 0; i < 2; ++i) {
      nets.emplace_back(torch::nn::LinearOptions(1, 1).bias(false));
      torch::nn::init::zeros_(nets[i]->weight);
      sgds.emplace_back(nets[i]->parameters(), 0.25);
      models.push_back(accelerator.prepare(nets[i]));
      optimizers.push_back(accelerator.prepare(sgds[i]));
    }
    std::vector<double> seen;
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < 2; ++i) {
        accelerator.backward(models[i](torch::full({1, 1}, i + 1.0)).sum());
        seen.push_back(
            accelerator.clip_grad_norm_(models[i].parameters(), 1.5).template item<double>());
        accelerator.clip_grad_value_(models[i].parameters(), 1.25);
        optimizers[i].step();
        optimizers[i].zero_grad();
        seen.push_back(nets[i]->weight.template item<double>());
      }
    }
    return seen;
  };
  const auto plain = train(MixedPrecision::no), scaled = train(MixedPrecision::fp16);
  ASSERT_EQ(plain.size(), 12u);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(scaled[i], plain[i], 1e-5) << i;
}

// A generator and a critic, whose gradients the generator's loss spoils or, frozen, does not touch.
std::vector<at::Tensor> train_adversaries(const std::shared_ptr<Communicator>& comm, bool freeze,
                                          MixedPrecision precision) {
  Accelerator accelerator(
      {.mixed_precision = precision, .grad_scaler = {.init_scale = 1024}, .communicator = comm});
  torch::nn::Linear generator(2, 2), critic(2, 1);
  double value = 0;
  for (auto& leaf : {generator->weight, generator->bias, critic->weight, critic->bias}) {
    torch::nn::init::constant_(leaf, value += 0.125);
  }
  torch::optim::SGD generator_sgd(generator->parameters(), 0.5),
      critic_sgd(critic->parameters(), 0.5);
  auto [g, c, g_optimizer, c_optimizer] =
      accelerator.prepare(generator, critic, generator_sgd, critic_sgd);
  for (int step = 0; step < 4; ++step) {
    const auto all = torch::sin(torch::arange(step, step + 24, at::kFloat)).view({12, 2});
    const auto rows = 12 / comm->size();
    const auto z = all.narrow(0, rows * comm->rank(), rows);
    c_optimizer.zero_grad();
    accelerator.backward((c(g(z).detach()).tanh() - c(z).tanh()).mean());
    accelerator.clip_grad_norm_(c.parameters(), 0.25);
    c_optimizer.step();
    g_optimizer.zero_grad();
    for (auto& leaf : c.parameters()) leaf.set_requires_grad(!freeze);
    accelerator.backward(-c(g(z)).tanh().mean());
    accelerator.clip_grad_norm_(g.parameters(), 0.25);
    g_optimizer.step();
    for (auto& leaf : c.parameters()) leaf.set_requires_grad(true);
  }
  return {generator->weight.detach().clone(), critic->weight.detach().clone()};
}

TEST(SeveralModels, AdversariesOnRanksTrainWhatOneProcessTrains) {
  for (const auto& [precision, tolerance] :
       {std::pair{MixedPrecision::no, 1e-6}, std::pair{MixedPrecision::fp16, 5e-3}}) {
    const auto alone = train_adversaries(single_communicator(), false, MixedPrecision::no);
    for (const int ranks : {1, 2, 3}) {
      for (const bool freeze : {false, true}) {
        run_ranks_shared(ranks,
                         [&, precision = precision, tolerance = tolerance](const auto& comm) {
                           const auto trained = train_adversaries(comm, freeze, precision);
                           for (std::size_t i = 0; i < alone.size(); ++i) {
                             EXPECT_TRUE(trained[i].allclose(alone[i], tolerance, tolerance))
                                 << trained[i] << alone[i] << ranks << freeze;
                           }
                         });
      }
    }
  }
}

// A validation pass between two micro-batches, to the end of its own loader.
TEST(SeveralModels, EvaluationBetweenMicroBatchesChangesNothing) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks_shared(ranks, [](const std::shared_ptr<Communicator>& comm) {
      const auto train = [&](bool evaluates) {
        Accelerator accelerator({.gradient_accumulation_steps = 2, .communicator = comm});
        torch::nn::Sequential net(torch::nn::Linear(1, 2), torch::nn::BatchNorm1d(2));
        for (auto& leaf : net->parameters()) torch::nn::init::constant_(leaf, 0.5);
        torch::optim::SGD sgd(net->parameters(), 0.5);
        const auto data = torch::arange(24 * comm->size(), at::kFloat).view({-1, 1}).sin();
        auto batches = make_data_loader(data, {.batch_size = 4});
        auto others = make_data_loader(data.cos(), {.batch_size = 8});
        auto [model, optimizer, loader, validation] =
            accelerator.prepare(net, sgd, batches, others);
        for (auto& batch : loader) {
          const auto window = accelerator.accumulate(model);
          accelerator.backward(model(batch).pow(3).mean());
          optimizer.step();
          optimizer.zero_grad();
          if (!evaluates) continue;
          const at::NoGradGuard no_grad;
          model.eval();
          for (auto& sample : validation) (void)accelerator.gather_for_metrics(model(sample));
          model.train();
        }
        return torch::cat({net->parameters()[0].flatten(), net->buffers()[0]}).detach().clone();
      };
      EXPECT_TRUE(train(true).equal(train(false)));
    });
  }
}

TEST(SeveralModels, AnOverflowInTheMiddleOfOneRanksWindowSkipsTheStepOfAll) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.gradient_accumulation_steps = 2,
                             .mixed_precision = MixedPrecision::fp16,
                             .grad_scaler = {.init_scale = 1024},
                             .communicator = comm});
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    torch::nn::init::zeros_(net->weight);
    torch::optim::SGD sgd(net->parameters(), 1.0);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    for (int i = 0; i < 4; ++i) {
      const auto window = accelerator.accumulate(model);
      const double factor = i == 0 && comm->rank() == 1 ? INFINITY : 1.0;
      accelerator.backward((model(torch::ones({1, 1})) * factor).sum());
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 0.5);
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_EQ(optimizer.step_was_skipped(), i == 1 || i == 2) << i;
    }
    EXPECT_NEAR(net->weight.item<double>(), -0.5, 1e-5);
    EXPECT_EQ(accelerator.scaler()->get_scale(), 512.0);
  });
}

}  // namespace
}  // namespace accelerate
