// Schedules: where they start, what may be combined, your own, and states.
#include <gtest/gtest.h>

#include <cmath>

#include "accelerate/base/error.h"
#include "tests/optim/optimizers.h"
#include "tests/optim/schedule_reference.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;
using testing::make_optimizer;
using testing::Numbers;

Numbers rates_of(const std::unique_ptr<torch::optim::Optimizer>& optimizer) {
  return detail::group_rates(*optimizer);
}

// The rate of the first group before each of `steps` steps.
Numbers curve(LRScheduler& schedule, int steps) {
  Numbers rates;
  for (int i = 0; i < steps; ++i) {
    rates.push_back(schedule.get_last_lr().front());
    schedule.step();
  }
  return rates;
}

constexpr const char* kOptimizers[] = {"SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "LBFGS"};

TEST(Schedules, EveryOptimizerOfLibTorchIsDriven) {
  for (const char* name : kOptimizers) {
    const auto optimizer = make_optimizer(name, {0.5});
    const auto linear =
        get_scheduler("linear", *optimizer, {.num_warmup_steps = 2, .num_training_steps = 4});
    EXPECT_EQ(rates_of(optimizer), Numbers{0.0}) << name;
    linear->step();
    EXPECT_EQ(rates_of(optimizer), Numbers{0.25}) << name;
    EXPECT_EQ(linear->optimizer(), optimizer.get());
  }
}

// --- where they start ----------------------------------------------------------------------------

TEST(InitialRates, ASecondScheduleStartsFromTheRatesBeforeTheFirst) {
  const auto optimizer = make_optimizer("SGD", {0.5});
  {
    const auto first =
        get_scheduler("linear", *optimizer, {.num_warmup_steps = 10, .num_training_steps = 20});
  }
  EXPECT_EQ(rates_of(optimizer), Numbers{0.0}) << "what the first one left";
  const auto second = get_scheduler("constant", *optimizer);
  EXPECT_EQ(rates_of(optimizer), Numbers{0.5});
}

TEST(InitialRates, RatesSetByHandAreANewStart) {
  const auto optimizer = make_optimizer("SGD", {0.5});
  ExponentialLR first(*optimizer, 0.1);
  first.step();
  detail::set_group_rates(*optimizer, {0.25});
  const auto second = get_scheduler("constant", *optimizer);
  EXPECT_EQ(rates_of(optimizer), Numbers{0.25});
}

// Optimizers on the stack of a function that is called again have one address.
TEST(InitialRates, AnotherOptimizerAtTheSameAddressStartsFromItsOwn) {
  const auto parameter = torch::ones({1}, torch::requires_grad());
  std::optional<torch::optim::SGD> optimizer;
  for (const double rate : {0.5, 0.125, 0.25}) {
    optimizer.emplace(std::vector<at::Tensor>{parameter}, torch::optim::SGDOptions(rate));
    ExponentialLR schedule(*optimizer, 0.5);
    EXPECT_EQ(schedule.get_last_lr(), Numbers{rate});
    schedule.step();
    const auto factors = get_scheduler("constant", *optimizer);
    EXPECT_EQ(factors->get_last_lr(), Numbers{rate});
  }
}

TEST(InitialRates, GroupsThatWereAddedStartFromTheirRate) {
  const auto optimizer = make_optimizer("SGD", {0.5});
  (void)get_scheduler("linear", *optimizer, {.num_warmup_steps = 5, .num_training_steps = 9});
  optimizer->add_param_group(
      {{torch::ones({1}, torch::requires_grad())},
       std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(0.125))});
  (void)get_scheduler("constant", *optimizer);
  EXPECT_EQ(rates_of(optimizer), (Numbers{0.5, 0.125}));
}

TEST(InitialRates, GroupsAddedUnderASchedulesFeetAreAUsageError) {
  const auto optimizer = make_optimizer("SGD", {0.5});
  ExponentialLR schedule(*optimizer, 0.5);
  optimizer->add_param_group({{torch::ones({1}, torch::requires_grad())}});
  LambdaLR factors(*optimizer, [](std::int64_t) { return 1.0; });
  EXPECT_NO_THROW(factors.step());
  EXPECT_NO_THROW(schedule.step()) << "works from the present rates";
  optimizer->add_param_group({{torch::ones({1}, torch::requires_grad())}});
  EXPECT_THROW(factors.step(), UsageError);
}

// --- sequences -----------------------------------------------------------------------------------

std::shared_ptr<LRScheduler> line_then_decay(torch::optim::Optimizer& optimizer) {
  SequentialLR::Schedulers both = {
      std::make_shared<LinearLR>(optimizer, LinearLROptions{0.5, 1.0, 2}),
      std::make_shared<ExponentialLR>(optimizer, 0.5)};
  return std::make_shared<SequentialLR>(optimizer, both, std::vector<std::int64_t>{3});
}

// PyTorch's loses a step in a sequence that begins one, and fails in one that follows.
TEST(SequentialLR, MayHoldSequences) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  const auto plain = curve(*line_then_decay(*optimizer), 6);
  EXPECT_EQ(plain, (Numbers{0.5, 0.75, 1.0, 1.0, 0.5, 0.25}));
  SequentialLR::Schedulers twice = {line_then_decay(*optimizer), line_then_decay(*optimizer)};
  SequentialLR nested(*optimizer, twice, {6});
  EXPECT_EQ(curve(nested, 6), plain);
  EXPECT_EQ(curve(nested, 6), plain);
}

// --- your own ------------------------------------------------------------------------------------

class HalfEvery final : public LRScheduler {
 public:
  HalfEvery(torch::optim::Optimizer& optimizer, std::int64_t steps)
      : LRScheduler(optimizer), steps_(steps) {
    start();
  }

 private:
  std::vector<double> get_lr() override {
    auto rates = base_lrs();
    for (double& rate : rates) rate *= std::pow(0.5, last_epoch() / steps_);
    return rates;
  }
  void visit_state(StateVisitor& field) override {
    LRScheduler::visit_state(field);
    field("steps", steps_);
  }
  std::int64_t steps_;
};

TEST(OwnSchedule, StepsAndResumesLikeTheOthers) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  HalfEvery schedule(*optimizer, 2), resumed(*optimizer, 7);
  EXPECT_EQ(curve(schedule, 5), (Numbers{1, 1, 0.5, 0.5, 0.25}));
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(curve(resumed, 3), (Numbers{0.25, 0.125, 0.125}));
}

TEST(OwnSchedule, IsMadeByItsRegisteredName) {
  register_scheduler(
      "half_every", [](torch::optim::Optimizer& optimizer, const SchedulerOptions& options) {
        return std::make_shared<HalfEvery>(optimizer, options.num_warmup_steps.value_or(1));
      });
  const auto optimizer = make_optimizer("SGD", {1.0});
  const auto schedule = get_scheduler("half_every", *optimizer, {.num_warmup_steps = 1});
  EXPECT_EQ(curve(*schedule, 3), (Numbers{1, 0.5, 0.25}));
  EXPECT_EQ(scheduler_names().back(), "half_every");
  EXPECT_EQ(scheduler_names().front(), "linear");
  EXPECT_THROW(register_scheduler("half_every", nullptr), ConfigError);
}

struct OwnOptions : torch::optim::OptimizerCloneableOptions<OwnOptions> {
  [[nodiscard]] double get_lr() const override { return rate; }
  void set_lr(const double lr) override { rate = lr; }
  double rate = 0.5;
};
TEST(Schedules, AnOptimizerOfYoursIsDrivenThroughItsOptions) {
  testing::OwnOptimizer<OwnOptions> optimizer;
  ExponentialLR schedule(optimizer, 0.5);
  schedule.step();
  EXPECT_EQ(static_cast<OwnOptions&>(optimizer.param_groups()[0].options()).rate, 0.25);
}

// --- states --------------------------------------------------------------------------------------

TEST(SchedulerState, OfAnotherScheduleIsRefusedAndNothingChanges) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  StepLR steps(*optimizer, 3);
  CosineAnnealingLR cosine(*optimizer, 5);
  cosine.step();
  const auto before = steps.state_dict();
  EXPECT_THROW(steps.load_state_dict(cosine.state_dict()), CheckpointError);
  EXPECT_EQ(steps.state_dict(), before);
}

TEST(SchedulerState, AFieldThatDecidesWhatOthersThereAreIsTheStatesOwn) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  GreedyLR plain(*optimizer), smooth(*optimizer, {.smooth = true});
  const auto before = plain.state_dict();
  auto state = smooth.state_dict();
  state.nested.clear();
  EXPECT_THROW(plain.load_state_dict(state), CheckpointError);
  EXPECT_EQ(plain.state_dict(), before);
  plain.load_state_dict(smooth.state_dict());
  EXPECT_EQ(plain.state_dict(), smooth.state_dict());
  smooth.load_state_dict(before);
  EXPECT_EQ(smooth.state_dict(), before);
}

TEST(SchedulerState, FaultsAreCheckpointErrorsThatNameTheField) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  const auto load = [&](const std::function<void(SchedulerState&)>& damage) {
    ReduceLROnPlateau plateau(*optimizer);
    SchedulerState state = plateau.state_dict();
    damage(state);
    return kind_and_message_of([&] { plateau.load_state_dict(state); });
  };
  const std::vector<std::pair<std::function<void(SchedulerState&)>, std::vector<std::string>>>
      table = {
          {[](auto& s) { s.values.erase("best"); }, {"CheckpointError", "no 'best'", "patience"}},
          {[](auto& s) { s.values["factor"] = std::string("x"); },
           {"CheckpointError", "'factor'", "a text where a number is expected"}},
          {[](auto& s) { s.values["patience"] = 0.5; }, {"'patience'", "a whole number"}},
          {[](auto& s) { s.values["mode"] = std::string("best"); }, {"'mode' = 'best'"}},
          {[](auto& s) { s.values["min_lrs"] = Numbers{0, 0}; },
           {"'min_lrs'", "has 2 values", "has 1 groups"}},
      };
  for (const auto& [damage, parts] : table) {
    const std::string text = load(damage);
    for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_EQ(load([](auto&) {}), "nothing was thrown");
}

// A state may come from a damaged file, and some numbers in it are divisors and lengths.
TEST(SchedulerState, NumbersThatNoScheduleCanHaveAreRefused) {
  const auto o = make_optimizer("SGD", {1.0});
  const auto schedules = std::vector<std::shared_ptr<LRScheduler>>{
      std::make_shared<StepLR>(*o, 3),
      std::make_shared<CosineAnnealingLR>(*o, 3),
      std::make_shared<LinearLR>(*o),
      std::make_shared<OneCycleLR>(*o, OneCycleLROptions{.max_lr = 1.0, .total_steps = 9}),
      line_then_decay(*o),
      get_scheduler("greedy", *o)};
  const std::vector<std::pair<std::size_t, std::pair<std::string, StateValue>>> table = {
      {0, {"step_size", std::int64_t{0}}},        {1, {"T_max", std::int64_t{0}}},
      {2, {"total_iters", std::int64_t{-1}}},     {3, {"total_steps", std::int64_t{0}}},
      {3, {"max_lrs", Numbers{1, 2, 3}}},         {3, {"base_momentums", Numbers{1, 2}}},
      {4, {"_milestones", testing::Steps{1, 2}}}, {5, {"window_size", std::int64_t{0}}}};
  for (const auto& [index, damage] : table) {
    LRScheduler& schedule = *schedules[index];
    auto state = schedule.state_dict();
    state.values.at(damage.first) = damage.second;
    const auto text = kind_and_message_of([&] { schedule.load_state_dict(state); });
    EXPECT_NE(text.find("'" + damage.first + "'"), std::string::npos) << text;
    if (schedule.needs_metric()) {
      schedule.step(1.0);
    } else {
      schedule.step();
    }
  }
}

// --- where PyTorch divides by zero ---------------------------------------------------------------

TEST(OneCycleLR, APhaseWithoutLengthIsOverAsItBegins) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  OneCycleLR cycle(*optimizer, {.max_lr = 1.0, .total_steps = 4, .pct_start = 0.25});
  EXPECT_EQ(cycle.get_last_lr(), Numbers{1.0});
  for (int i = 0; i < 4; ++i) cycle.step();
  EXPECT_EQ(cycle.total_steps(), 4);
  EXPECT_LT(cycle.get_last_lr()[0], 0.3);
}

TEST(Polynomial, WithoutStepsToDecayInItEndsWithWarmUp) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  const auto schedule =
      get_scheduler("polynomial", *optimizer, {.num_warmup_steps = 2, .num_training_steps = 2});
  EXPECT_EQ(curve(*schedule, 4), (Numbers{0, 0.5, 1e-7, 1e-7}));
}

}  // namespace
}  // namespace accelerate
