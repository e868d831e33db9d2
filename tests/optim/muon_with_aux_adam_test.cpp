// MuonWithAuxAdam by itself. Whole trainings beside DeepSpeed: deepspeed_runs_test.cpp.
#include "accelerate/optim/algorithms/muon_with_aux_adam.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::message_of;

at::Tensor wave(at::IntArrayRef shape, double pace = 0.7) {
  return torch::sin(torch::arange(c10::multiply_integers(shape)) * pace + 1.0)
      .to(at::kFloat)
      .view(shape);
}

// Returns what a step with rate 1 takes off a leaf of zeros with this gradient.
at::Tensor step_of(const at::Tensor& gradient, const std::string& method) {
  const auto leaf = torch::zeros_like(gradient).requires_grad_();
  leaf.mutable_grad() = gradient.clone();
  MuonWithAuxAdam muon({leaf}, MuonWithAuxAdamOptions().lr(1).ns_method(method));
  muon.step();
  return leaf.detach().neg();
}

TEST(MuonWithAuxAdam, StepsEquallyFarInEachDirection) {
  for (const char* method : {"gram", "standard"})
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{8, 20}, {20, 8}, {8, 8}, {3, 6, 9}}) {
      const auto update = step_of(wave(shape), method);
      const auto rows = static_cast<double>(shape[shape.size() - 2]);
      const double factor = std::max(1.0, std::sqrt(rows / static_cast<double>(shape.back())));
      const auto singular = torch::linalg_svdvals(update / factor);
      // Five iterations bring the larger ones between 0.68 and 1.14.
      EXPECT_GT(singular.select(-1, 0).min().item<double>(), 0.65) << method << shape;
      EXPECT_LT(singular.max().item<double>(), 1.2) << method << shape;
    }
}

TEST(MuonWithAuxAdam, TakesAFilterForAMatrix) {
  const auto filter = wave({6, 2, 3, 3});
  // The factor is that of the last two dimensions, as in DeepSpeed.
  EXPECT_TRUE(
      torch::equal(step_of(filter, "gram").view({6, 18}), step_of(filter.view({6, 18}), "gram")));
}

TEST(MuonWithAuxAdam, AdamsGroupsStepAsAdamWs) {
  for (const bool decoupled : {true, false}) {
    const auto leaf = wave({5}).requires_grad_(), twin = wave({5}).requires_grad_();
    MuonWithAuxAdam mixed(
        {leaf},
        MuonWithAuxAdamOptions(false).lr(0.1).weight_decay(0.2).eps(1e-8).adam_w_mode(decoupled));
    const std::tuple<double, double> betas{0.9, 0.95};
    torch::optim::AdamW adamw({twin},
                              torch::optim::AdamWOptions(0.1).weight_decay(0.2).betas(betas));
    torch::optim::Adam adam({twin}, torch::optim::AdamOptions(0.1).weight_decay(0.2).betas(betas));
    for (int step = 0; step < 5; ++step) {
      leaf.mutable_grad() = wave({5}, step + 0.3);
      twin.mutable_grad() = wave({5}, step + 0.3);
      mixed.step();
      decoupled ? adamw.step() : adam.step();
    }
    EXPECT_TRUE(torch::allclose(leaf, twin, 1e-5, 1e-6)) << decoupled;
  }
}

TEST(MuonWithAuxAdam, AppliesWhatClippingLeavesOfItsUpdates) {
  const auto leaf = torch::zeros({4, 6}).requires_grad_();
  leaf.mutable_grad() = wave({4, 6});
  MuonWithAuxAdam muon({leaf}, MuonWithAuxAdamOptions().lr(1));
  muon.take_updates();
  const auto update = leaf.grad().clone();
  muon.take_updates();  // Once a step.
  EXPECT_TRUE(torch::equal(leaf.grad(), update));
  leaf.mutable_grad().mul_(0.25);
  muon.step();
  EXPECT_TRUE(torch::equal(leaf.detach(), update * -0.25));
  leaf.mutable_grad() = wave({4, 6});
  muon.take_updates();
  muon.forget_updates();
  leaf.mutable_grad() = torch::zeros({4, 6});
  muon.step();  // Of gradients again: they are averaged in.
  EXPECT_FALSE(torch::equal(leaf.detach(), update * -0.25));
}

TEST(MuonWithAuxAdam, RefusesWhatMuonCannotStepAndOptionsOutOfRange) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "shape [3] and type Float",
                      message_of<UsageError>([] { MuonWithAuxAdam({torch::ones({3})}); }));
  const std::map<std::string, MuonWithAuxAdamOptions> wrong = {
      {"lr of MuonWithAuxAdam is -1", MuonWithAuxAdamOptions().lr(-1)},
      {"momentum of MuonWithAuxAdam is nan", MuonWithAuxAdamOptions().momentum(NAN)},
      {"betas[1] of MuonWithAuxAdam is 1", MuonWithAuxAdamOptions(false).betas({0.9, 1})},
      {"ns_method of MuonWithAuxAdam is 'qr'", MuonWithAuxAdamOptions().ns_method("qr")}};
  for (const auto& [part, options] : wrong)
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message_of<ConfigError>([&, given = options] {
                          MuonWithAuxAdam({torch::ones({2, 2})}, given);
                        }));
}

}  // namespace
}  // namespace accelerate
