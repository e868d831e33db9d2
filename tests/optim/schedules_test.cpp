// Schedules: where they start, what may be combined, your own, states, and bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "accelerate/base/error.h"
#include "tests/optim/schedule_reference.h"

namespace accelerate {
namespace {

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

class NeverStarted final : public LRScheduler {
 public:
  explicit NeverStarted(torch::optim::Optimizer& optimizer) : LRScheduler(optimizer) {}

 private:
  std::vector<double> get_lr() override { return base_lrs(); }
};

struct RatelessOptions : torch::optim::OptimizerCloneableOptions<RatelessOptions> {};
struct OwnOptions : torch::optim::OptimizerCloneableOptions<OwnOptions> {
  [[nodiscard]] double get_lr() const override { return rate; }
  void set_lr(const double lr) override { rate = lr; }
  double rate = 0.5;
};
template <typename Options>
struct OwnOptimizer final : torch::optim::Optimizer {
  OwnOptimizer()
      : Optimizer(std::vector<at::Tensor>{torch::ones({1}, torch::requires_grad())},
                  std::make_unique<Options>()) {}
  at::Tensor step(LossClosure /*closure*/) override { return {}; }
};

TEST(Schedules, AnOptimizerOfYoursIsDrivenThroughItsOptions) {
  OwnOptimizer<OwnOptions> optimizer;
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

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + describe(error);
  }
  return "no error";
}

TEST(SchedulerState, FaultsAreCheckpointErrorsThatNameTheField) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  const auto load = [&](const std::function<void(SchedulerState&)>& damage) {
    ReduceLROnPlateau plateau(*optimizer);
    SchedulerState state = plateau.state_dict();
    damage(state);
    return message_of([&] { plateau.load_state_dict(state); });
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
  EXPECT_EQ(load([](auto&) {}), "no error");
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
    const auto text = message_of([&] { schedule.load_state_dict(state); });
    EXPECT_NE(text.find("'" + damage.first + "'"), std::string::npos) << text;
    if (schedule.needs_metric()) {
      schedule.step(1.0);
    } else {
      schedule.step();
    }
  }
}

// --- bad input -----------------------------------------------------------------------------------

struct Bad {
  const char* name;
  std::function<void(torch::optim::Optimizer&)> call;
  std::vector<std::string> parts;  // Of the message.
};

void get(torch::optim::Optimizer& optimizer, const char* name,
         const SchedulerOptions& options = {.num_warmup_steps = 1, .num_training_steps = 9}) {
  (void)get_scheduler(name, optimizer, options);
}

SchedulerOptions with(const SchedulerKwargs& kwargs) {
  return {.num_warmup_steps = 1, .num_training_steps = 9, .scheduler_specific_kwargs = kwargs};
}

using Optimizer = torch::optim::Optimizer;
const std::vector<Bad>& bad_calls() {
  static const std::vector<Bad> table = {
      {"misspelt",
       [](Optimizer& o) { get(o, "cosin"); },
       {"ConfigError", "'cosin'", "warmup_stable_decay", "Did you mean 'cosine'?"}},
      {"no warm-up",
       [](Optimizer& o) { get(o, "linear", {.num_training_steps = 9}); },
       {"ConfigError", "'linear'", "num_warmup_steps", "not set"}},
      {"no training",
       [](Optimizer& o) { get(o, "cosine", {.num_warmup_steps = 9}); },
       {"'cosine'", "num_training_steps", "not set"}},
      {"negative",
       [](Optimizer& o) { get(o, "constant_with_warmup", {.num_warmup_steps = -3}); },
       {"num_warmup_steps = -3", "0 or more"}},
      {"of another",
       [](Optimizer& o) { get(o, "polynomial", with({.num_cycles = 2})); },
       {"'polynomial' does not take num_cycles", "lr_end, power"}},
      {"of none",
       [](Optimizer& o) { get(o, "linear", with({.power = 2})); },
       {"does not take power, nor any other"}},
      {"both floors",
       [](Optimizer& o) {
         get(o, "cosine_with_min_lr", with({.min_lr = 0.1, .min_lr_rate = 0.1}));
       },
       {"both min_lr and min_lr_rate"}},
      {"no floor",
       [](Optimizer& o) { get(o, "cosine_warmup_with_min_lr"); },
       {"needs min_lr", "or min_lr_rate"}},
      {"floor for each",
       [](Optimizer& o) { get(o, "cosine_with_min_lr", with({.min_lr = {{0.1, 0.2}}})); },
       {"one min_lr for all"}},
      {"no decay", [](Optimizer& o) { get(o, "warmup_stable_decay"); }, {"needs num_decay_steps"}},
      {"no length",
       [](Optimizer& o) {
         get(o, "warmup_stable_decay",
             {.num_warmup_steps = 1, .scheduler_specific_kwargs = {.num_decay_steps = 2}});
       },
       {"num_training_steps or num_stable_steps"}},
      {"end above start",
       [](Optimizer& o) { get(o, "polynomial", with({.lr_end = 0.5})); },
       {"lr_end = 0.5", "below the optimizer's rate, 0.5"}},
      {"timescale",
       [](Optimizer& o) { get(o, "inverse_sqrt", with({.timescale = 0})); },
       {"timescale = 0", "1 or more"}},
      {"growing plateau",
       [](Optimizer& o) { get(o, "reduce_lr_on_plateau", with({.factor = 1.5})); },
       {"factor is 1.5", "below 1"}},
      {"plateau factor that turns rates round",
       [](Optimizer& o) { get(o, "reduce_lr_on_plateau", with({.factor = -0.5})); },
       {"factor is -0.5", "from 0 to below 1"}},
      {"one cycle's first rate",
       [](Optimizer& o) { OneCycleLR(o, {.max_lr = 1.0, .total_steps = 9, .div_factor = 0}); },
       {"ConfigError", "div_factor is 0", "above 0"}},
      {"one cycle's last rate",
       [](Optimizer& o) {
         OneCycleLR(o, {.max_lr = 1.0, .total_steps = 9, .final_div_factor = -1});
       },
       {"ConfigError", "final_div_factor is -1"}},
      {"small rates are told as they are",
       [](Optimizer& o) {
         o.defaults().set_lr(1e-9);
         get(o, "polynomial", {.num_warmup_steps = 0, .num_training_steps = 5});
       },
       {"lr_end = 1e-07", "the optimizer's rate, 1e-09"}},
      {"phases longer than training",
       [](Optimizer& o) {
         get(o, "warmup_stable_decay",
             {.num_warmup_steps = 5,
              .num_training_steps = 12,
              .scheduler_specific_kwargs = {.num_decay_steps = 10}});
       },
       {"ConfigError", "stable for -3", "num_training_steps"}},
      {"bounds of a plateau",
       [](Optimizer& o) { get(o, "reduce_lr_on_plateau", with({.min_lr = {{0.1, 0.2}}})); },
       {"min_lr has 2 values", "1 parameter groups"}},
      {"greedy factor",
       [](Optimizer& o) { get(o, "greedy", with({.factor = 0.0})); },
       {"factor is 0;", "between 0 and 1"}},
      {"greedy window",
       [](Optimizer& o) { get(o, "greedy", with({.window_size = 0})); },
       {"window_size is 0"}},
      {"step size", [](Optimizer& o) { StepLR(o, 0); }, {"step_size is 0", "1 or more"}},
      {"half wave", [](Optimizer& o) { CosineAnnealingLR(o, -1); }, {"t_max is -1"}},
      {"start factor",
       [](Optimizer& o) { LinearLR(o, {.start_factor = 0}); },
       {"start_factor is 0", "(0, 1]"}},
      {"end factor",
       [](Optimizer& o) { LinearLR(o, {.end_factor = 1.5}); },
       {"end_factor", "[0, 1]"}},
      {"functions",
       [](Optimizer& o) { LambdaLR(o, std::vector<LambdaLR::Factor>{}); },
       {"0 functions", "1 parameter groups"}},
      {"no function", [](Optimizer& o) { LambdaLR(o, LambdaLR::Factor()); }, {"empty function"}},
      {"no cycle", [](Optimizer& o) { OneCycleLR(o, {.max_lr = 1.0}); }, {"needs total_steps"}},
      {"cycle of none",
       [](Optimizer& o) { OneCycleLR(o, {.max_lr = 1.0, .total_steps = 0}); },
       {"total_steps is 0"}},
      {"start of a cycle",
       [](Optimizer& o) { OneCycleLR(o, {.max_lr = 1.0, .total_steps = 9, .pct_start = 2}); },
       {"pct_start is 2;", "[0, 1]"}},
      {"milestones",
       [](Optimizer& o) { SequentialLR(o, {}, {}); },
       {"0 schedules and 0 milestones"}},
      {"milestones back",
       [](Optimizer& o) {
         const auto one = get_scheduler("constant", o);
         SequentialLR(o, {one, one, one}, {5, 5});
       },
       {"milestone 1 is 5", "later than the one before"}},
      {"metric in a sequence",
       [](Optimizer& o) {
         SequentialLR(o, {get_scheduler("reduce_lr_on_plateau", o), get_scheduler("constant", o)},
                      {5});
       },
       {"schedule 0", "needs a metric"}},
      {"another optimizer",
       [](Optimizer& o) {
         const auto other = make_optimizer("SGD", {0.5});
         SequentialLR(o, {get_scheduler("constant", *other)}, {});
       },
       {"schedule 0", "another optimizer"}},
      {"empty name", [](Optimizer&) { register_scheduler("", nullptr); }, {"ConfigError", "empty"}},
      {"taken name",
       [](Optimizer&) { register_scheduler("linear", [](auto&, auto&) { return nullptr; }); },
       {"ConfigError", "'linear'", "already"}},
      {"factory of nothing",
       [](Optimizer& o) {
         register_scheduler("nothing", [](auto&, auto&) { return nullptr; });
         get(o, "nothing");
       },
       {"'nothing'", "returned nothing"}},
      {"beyond the end",
       [](Optimizer& o) {
         OneCycleLR cycle(o, {.max_lr = 1.0, .total_steps = 2});
         for (int i = 0; i < 3; ++i) cycle.step();
       },
       {"UsageError", "OneCycleLR", "total_steps = 2"}},
      {"not started", [](Optimizer& o) { NeverStarted(o).step(); }, {"UsageError", "start()"}},
      {"a metric for none",
       [](Optimizer& o) { ExponentialLR(o, 0.5).step(0.5); },
       {"UsageError", "ExponentialLR", "without an argument"}},
      {"no metric",
       [](Optimizer& o) { ReduceLROnPlateau(o).step(); },
       {"UsageError", "step(metric)"}},
      {"momentum of none",
       [](Optimizer&) {
         const auto adagrad = make_optimizer("Adagrad", {0.5});
         OneCycleLR(*adagrad, {.max_lr = 1.0, .total_steps = 9});
       },
       {"ConfigError", "has none", ".cycle_momentum = false"}},
      {"options without a rate",
       [](Optimizer&) {
         OwnOptimizer<RatelessOptions> rateless;
         ExponentialLR(rateless, 0.5);
       },
       {"UsageError", "RatelessOptions", "get_lr() and set_lr()"}},
  };
  return table;
}

TEST(ScheduleBadInput, IsATypedErrorThatSaysWhatWasFoundAndWhatIsAllowed) {
  for (const Bad& bad : bad_calls()) {
    const auto optimizer = make_optimizer("SGD", {0.5});
    const std::string text = message_of([&] { bad.call(*optimizer); });
    for (const auto& part : bad.parts) {
      EXPECT_NE(text.find(part), std::string::npos)
          << bad.name << " lacks '" << part << "': " << text;
    }
  }
}

TEST(ScheduleBadInput, MetricsThatAreNoNumbersCountAsNoImprovement) {
  const auto optimizer = make_optimizer("SGD", {1.0});
  ReduceLROnPlateau plateau(*optimizer, {.patience = 1});
  plateau.step(1.0);
  plateau.step(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(plateau.get_last_lr(), Numbers{1.0});
  plateau.step(std::numeric_limits<double>::infinity());
  EXPECT_EQ(plateau.get_last_lr(), Numbers{0.1});
  EXPECT_EQ(plateau.best(), 1.0);
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
