// What no schedule takes, and what its error then says.
#include <gtest/gtest.h>

#include <limits>

#include "accelerate/base/error.h"
#include "tests/optim/optimizers.h"
#include "tests/optim/schedule_reference.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;
using testing::make_optimizer;
using testing::Numbers;

class NeverStarted final : public LRScheduler {
 public:
  explicit NeverStarted(torch::optim::Optimizer& optimizer) : LRScheduler(optimizer) {}

 private:
  std::vector<double> get_lr() override { return base_lrs(); }
};

struct RatelessOptions : torch::optim::OptimizerCloneableOptions<RatelessOptions> {};

struct Bad {
  const char* name;
  std::function<void(torch::optim::Optimizer&)> call;
  std::vector<std::string> parts;  // Of the message.
};

void get(torch::optim::Optimizer& optimizer, const char* name,
         const SchedulerOptions& options = {.num_warmup_steps = 1, .num_training_steps = 9}) {
  (void)get_scheduler(name, optimizer, options);
}

SchedulerOptions with(const SchedulerSpecificOptions& kwargs) {
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
         testing::OwnOptimizer<RatelessOptions> rateless;
         ExponentialLR(rateless, 0.5);
       },
       {"UsageError", "RatelessOptions", "get_lr() and set_lr()"}},
  };
  return table;
}

TEST(ScheduleBadInput, IsATypedErrorThatSaysWhatWasFoundAndWhatIsAllowed) {
  for (const Bad& bad : bad_calls()) {
    const auto optimizer = make_optimizer("SGD", {0.5});
    const std::string text = kind_and_message_of([&] { bad.call(*optimizer); });
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

}  // namespace
}  // namespace accelerate
