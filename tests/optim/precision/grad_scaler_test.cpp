// GradScaler: the scale's path against torch.amp.GradScaler, several optimizers, several ranks.
#include "accelerate/optim/precision/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "accelerate/base/error.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

constexpr float kInf = std::numeric_limits<float>::infinity();
const int kFirst = 0, kSecond = 0;  // stand for optimizers, which are known by address

GradScaler make_scaler(const GradScalerKwargs& kwargs = {}) {
  return {c10::Device("cpu"), single_communicator(), kwargs};
}

// One step of an optimizer whose gradients, unscaled, are `value`.
bool step(GradScaler& scaler, float value, const void* optimizer = &kFirst) {
  (void)scaler.scale(torch::ones({}));
  scaler.unscale_(optimizer, {torch::full({3}, value) * scaler.gradient_scale()});
  const bool skipped = scaler.found_inf(optimizer);
  scaler.update(optimizer);
  return skipped;
}

TEST(GradScaler, FollowsTorchStepByStep) {
  std::istringstream file(testing::read_reference("grad_scaler.txt"));
  int rows = 0, steps = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    std::istringstream row(line);
    GradScalerKwargs kwargs;
    std::string bar, word;
    row >> kwargs.init_scale >> kwargs.growth_factor >> kwargs.backoff_factor >>
        kwargs.growth_interval >> bar;
    auto scaler = make_scaler(kwargs);
    for (; row >> word; ++steps) {
      int overflow = 0;
      long tracker = 0;
      double scale = 0;
      ASSERT_EQ(std::sscanf(word.c_str(), "%d:%lf:%ld", &overflow, &scale, &tracker), 3) << word;
      EXPECT_EQ(step(scaler, overflow != 0 ? kInf : 1.0F), overflow != 0);
      EXPECT_EQ(scaler.get_scale(), scale) << line;
      EXPECT_EQ(scaler.state_dict().growth_tracker, tracker) << line;
    }
  }
  EXPECT_EQ(rows, 40);
  EXPECT_EQ(steps, 40 * 24);
}

// Returns the settings at the head of a run of deepspeed_scaler.txt, as the Accelerator makes them.
GradScalerKwargs deepspeed_settings(std::istream& row) {
  int power = 0;
  std::string bar;
  GradScalerKwargs kwargs{.growth_delay = 1};
  row >> power >> kwargs.growth_interval >> kwargs.min_scale >> kwargs.hysteresis >>
      kwargs.consecutive_hysteresis >> bar;
  kwargs.init_scale = std::ldexp(1.0, power);
  return kwargs;
}

TEST(GradScaler, FollowsDeepSpeedStepByStep) {
  const testing::LogCapture log;
  std::istringstream file(testing::read_reference("deepspeed_scaler.txt"));
  int rows = 0, steps = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    std::istringstream row(line);
    const auto kwargs = deepspeed_settings(row);
    auto scaler = make_scaler(kwargs);
    for (std::string word; row >> word; ++steps) {
      int overflow = 0;
      long hysteresis = 0;
      double scale = 0;
      ASSERT_EQ(std::sscanf(word.c_str(), "%d:%lf:%ld", &overflow, &scale, &hysteresis), 3);
      EXPECT_EQ(step(scaler, overflow != 0 ? kInf : 1.0F), overflow != 0);
      EXPECT_EQ(scaler.get_scale(), scale) << line;
      EXPECT_EQ(scaler.state_dict().hysteresis_left.value_or(1), hysteresis) << line;
      auto restored = make_scaler(kwargs);
      restored.load_state_dict(scaler.state_dict());
      scaler = std::move(restored);
    }
  }
  EXPECT_EQ(rows, 40);
  EXPECT_EQ(steps, 40 * 40);
}

TEST(GradScaler, AFixedScaleStillFindsOverflows) {
  auto scaler = make_scaler({.init_scale = 128, .growth_interval = 1, .dynamic = false});
  EXPECT_FALSE(step(scaler, 1.0F));
  EXPECT_TRUE(step(scaler, kInf));
  EXPECT_EQ(scaler.get_scale(), 128.0);
}

TEST(GradScaler, SaysThatTheLeastScaleOverflows) {
  auto scaler = make_scaler({.init_scale = 2, .min_scale = 1});
  const testing::LogCapture log;
  step(scaler, kInf);
  EXPECT_TRUE(log.lines().empty());
  step(scaler, kInf);
  EXPECT_EQ(scaler.get_scale(), 1.0);
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines()[0].find("the loss scale has reached its minimum"), std::string::npos);
}

TEST(GradScaler, UnscalesOnceWhateverIsAskedTwice) {
  auto scaler = make_scaler({.init_scale = 4});
  const at::Tensor gradient = torch::full({2}, 8.0);
  EXPECT_EQ(scaler.scale(torch::full({}, 3.0)).item<float>(), 12.0F);
  scaler.unscale_(&kFirst, {gradient, at::Tensor()});
  scaler.unscale_(&kFirst, {gradient});
  EXPECT_TRUE(gradient.equal(torch::full({2}, 2.0)));
  EXPECT_FALSE(scaler.found_inf(&kFirst));
}

TEST(GradScaler, NaNAndInfinityOfEitherSignAreOverflows) {
  for (const float value : {kInf, -kInf, std::nanf("")}) {
    auto scaler = make_scaler();
    EXPECT_TRUE(step(scaler, value)) << value;
    EXPECT_EQ(scaler.get_scale(), 32768.0);
  }
}

TEST(GradScaler, SeesOverflowsInSparseGradientsAndEveryDtype) {
  auto scaler = make_scaler({.init_scale = 2});
  (void)scaler.scale(torch::ones({}));
  const auto sparse =
      torch::sparse_coo_tensor(torch::tensor({{0, 2}}), torch::tensor({4.0, 6.0}), {3});
  const auto wide = torch::full({2}, 10.0, at::kDouble),
             brain = torch::full({2}, 12.0, at::kBFloat16);
  scaler.unscale_(&kFirst, {sparse, wide, brain});
  EXPECT_TRUE(sparse.to_dense().equal(torch::tensor({2.0, 0.0, 3.0})));
  EXPECT_TRUE(wide.equal(torch::full({2}, 5.0, at::kDouble)));
  EXPECT_TRUE(brain.equal(torch::full({2}, 6.0, at::kBFloat16)));
  wide[1] = kInf;
  scaler.unscale_(&kSecond, {brain, wide});
  EXPECT_FALSE(scaler.found_inf(&kFirst));
  EXPECT_TRUE(scaler.found_inf(&kSecond));
}

// Each of two optimizers of one backward unscales by the factor that the loss had, also when the
// first one's update has already moved the scale.
TEST(GradScaler, TwoOptimizersOfOneBackwardShareItsFactor) {
  auto scaler = make_scaler({.init_scale = 8, .growth_interval = 1});
  (void)scaler.scale(torch::ones({}));
  const auto first = torch::full({1}, 16.0), second = torch::full({1}, 24.0);
  scaler.unscale_(&kFirst, {first});
  scaler.update(&kFirst);
  EXPECT_EQ(scaler.get_scale(), 16.0);
  scaler.unscale_(&kSecond, {second});
  scaler.update(&kSecond);
  EXPECT_EQ(scaler.get_scale(), 16.0) << "one backward, one growth";
  EXPECT_EQ(second.item<float>(), 3.0F);
  EXPECT_EQ(scaler.scale(torch::ones({})).item<float>(), 16.0F);
}

// As when clipping one network of two unscales all optimizers, before the other one's backward.
TEST(GradScaler, AnOptimizerWithoutGradientsIsNotUnscaledYet) {
  for (const int ranks : {1, 2}) {
    run_ranks_shared(ranks, [](const std::shared_ptr<Communicator>& comm) {
      GradScaler scaler(c10::Device("cpu"), comm, {.init_scale = 8});
      (void)scaler.scale(torch::ones({}));
      scaler.unscale_(&kFirst, {at::Tensor()});
      EXPECT_FALSE(scaler.is_unscaled(&kFirst));
      EXPECT_FALSE(scaler.found_inf(&kFirst));
      const auto late = torch::full({1}, 16.0);
      scaler.unscale_(&kFirst, {late});
      EXPECT_EQ(late.item<float>(), 2.0F);
    });
  }
}

TEST(GradScaler, NeverScalesByZero) {
  const testing::LogCapture quiet;
  auto scaler = make_scaler();
  for (int i = 0; i < 200; ++i) step(scaler, kInf);
  (void)scaler.scale(torch::ones({}));
  const auto gradient = torch::zeros({2});
  scaler.unscale_(&kFirst, {gradient});
  EXPECT_TRUE(gradient.equal(torch::zeros({2}))) << "zeros times infinity";
}

TEST(GradScaler, WarnsWhenItsScaleFallsBelowOne) {
  const testing::LogCapture log;
  auto scaler = make_scaler({.init_scale = 4});
  for (int i = 0; i < 9; ++i) step(scaler, kInf);
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("fallen below 1"), std::string::npos) << lines[0];
}

TEST(GradScaler, AnOverflowOfTheSecondOptimizerStillBacksOff) {
  auto scaler = make_scaler({.init_scale = 8});
  (void)scaler.scale(torch::ones({}));
  scaler.unscale_(&kFirst, {torch::ones({1})});
  scaler.update(&kFirst);
  scaler.unscale_(&kSecond, {torch::full({1}, kInf)});
  scaler.update(&kSecond);
  EXPECT_EQ(scaler.get_scale(), 4.0);
}

TEST(GradScaler, AnOverflowOnOneRankIsOneOnAll) {
  run_ranks_shared(3, [](const std::shared_ptr<Communicator>& comm) {
    GradScaler scaler(c10::Device("cpu"), comm, {.init_scale = 2});
    EXPECT_TRUE(step(scaler, comm->rank() == 1 ? kInf : 1.0F));
    EXPECT_EQ(scaler.get_scale(), 1.0);
    EXPECT_FALSE(step(scaler, 1.0F));
    scaler.set_agreement(false);
    EXPECT_EQ(step(scaler, comm->rank() == 1 ? kInf : 1.0F), comm->rank() == 1);
  });
}

TEST(GradScaler, DisabledItDoesNothing) {
  auto scaler = make_scaler({.enabled = false});
  const auto loss = torch::ones({}), gradient = torch::full({1}, kInf);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  scaler.unscale_(&kFirst, {gradient});
  EXPECT_FALSE(scaler.found_inf(&kFirst));
  EXPECT_EQ(scaler.get_scale(), 1.0);
}

TEST(GradScaler, GoesOnFromASavedState) {
  auto scaler = make_scaler({.init_scale = 8, .growth_interval = 3});
  step(scaler, 1.0F);
  step(scaler, 1.0F);
  auto resumed = make_scaler();
  resumed.load_state_dict(scaler.state_dict());
  for (const float value : {1.0F, 1.0F, kInf, 1.0F, 1.0F, 1.0F}) {
    EXPECT_EQ(step(scaler, value), step(resumed, value));
    EXPECT_EQ(scaler.get_scale(), resumed.get_scale());
  }
}

struct BadUse {
  const char* what;
  std::function<void()> use;
  const char* message;
};

TEST(GradScaler, BadUseEndsInASentence) {
  const BadUse cases[] = {
      {"init_scale", [] { make_scaler({.init_scale = 0}); }, "init_scale is 0"},
      {"infinite", [] { make_scaler({.init_scale = kInf}); }, "init_scale is inf"},
      {"beyond fp32", [] { make_scaler({.init_scale = 1e39}); }, "init_scale is 1e+39"},
      {"tracker beyond its interval",
       [] { make_scaler().load_state_dict({.growth_tracker = 2000}); }, "growth_tracker is 2000"},
      {"growth", [] { make_scaler({.growth_factor = 1}); }, "growth_factor is 1"},
      {"backoff", [] { make_scaler({.backoff_factor = 1}); }, "between 0 and 1"},
      {"interval", [] { make_scaler({.growth_interval = 0}); }, "growth_interval is 0"},
      {"state", [] { make_scaler().load_state_dict({.scale = -1}); }, "GradScaler: scale is -1"},
      {"no loss", [] { make_scaler().unscale_(&kFirst, {}); }, "accelerator.backward(loss)"},
      {"not checked", [] { (void)make_scaler().found_inf(&kFirst); }, "unscale_"},
      {"fp16 gradients",
       [] {
         auto scaler = make_scaler();
         (void)scaler.scale(torch::ones({}));
         scaler.unscale_(&kFirst, {torch::ones({2, 5}, at::kHalf)});
       },
       "shape [2, 5] is fp16"},
  };
  for (const auto& bad : cases) {
    try {
      bad.use();
      ADD_FAILURE() << bad.what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace accelerate
