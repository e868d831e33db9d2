// Prepared schedules. The first tests are upstream's tests/test_scheduler.py on one to four ranks.
#include "accelerate/optim/accelerated_scheduler.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>

#include "accelerate/accelerate.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::LogCapture;
using testing::run_ranks_shared;
using Group = std::shared_ptr<Communicator>;
using Numbers = std::vector<double>;

// A model, an optimizer and fp16, in which a step can be made to overflow.
struct ScheduledTraining {
  explicit ScheduledTraining(AcceleratorOptions options, double rate = 1.0)
      : accelerator([&] {
          options.mixed_precision = MixedPrecision::fp16;
          options.grad_scaler.init_scale = 4;  // So that the first step does not overflow.
          return options;
        }()),
        adamw(net->parameters(), torch::optim::AdamWOptions(rate)),
        model(accelerator.prepare(net)),
        optimizer(accelerator.prepare(adamw)) {}

  // One step of the optimizer, or one that is skipped.
  void step(bool overflow = false) {
    auto loss = model(torch::ones({1, 2})).sum();
    if (overflow) loss = loss * std::numeric_limits<float>::infinity();
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }

  Accelerator accelerator;
  torch::nn::Linear net{2, 4};
  torch::optim::AdamW adamw;
  Prepared<torch::nn::Linear> model;
  AcceleratedOptimizer optimizer;
};

LambdaLR one_tenth_less(torch::optim::Optimizer& optimizer) {
  return {optimizer, [](std::int64_t n) { return 1 - static_cast<double>(n) / 10; }};
}

double tenths_less(int n) {
  return 1 - static_cast<double>(n) / 10;
}

class OnRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OnRanks, ::testing::Values(1, 2, 3, 4));

struct Way {
  bool with_optimizer, split_batches;
  std::optional<SchedulerStep> step;
};

TEST_P(OnRanks, LambdaScheduleStepsWithItsOptimizer) {
  const LogCapture quiet;
  for (const Way& way : std::vector<Way>{{true, false, {}},
                                         {true, true, {}},
                                         {false, false, {}},
                                         {true, false, SchedulerStep::once},
                                         {true, false, SchedulerStep::per_process}}) {
    run_ranks_shared(GetParam(), [&way](const Group& group) {
      ScheduledTraining training({.step_scheduler_with_optimizer = way.with_optimizer,
                                  .scheduler_step = way.step,
                                  .dataloader_config = {.split_batches = way.split_batches},
                                  .communicator = group});
      auto lambda = one_tenth_less(training.adamw);
      auto scheduler = training.accelerator.prepare(lambda);
      const bool each_rank =
          way.with_optimizer && !way.split_batches && way.step != SchedulerStep::once;
      const int first = each_rank ? group->size() : 1;
      training.step();
      scheduler.step();
      EXPECT_EQ(scheduler.get_last_lr(), Numbers{tenths_less(first)});
      EXPECT_EQ(scheduler.last_epoch(), first);
      training.step(true);
      EXPECT_TRUE(training.optimizer.step_was_skipped());
      scheduler.step();
      EXPECT_EQ(scheduler.get_last_lr(), Numbers{tenths_less(way.with_optimizer ? first : 2)});
    });
  }
}

TEST_P(OnRanks, OneCycleStaysAtItsEnd) {
  const LogCapture quiet;
  run_ranks_shared(GetParam(), [](const Group& group) {
    ScheduledTraining training({.communicator = group});
    OneCycleLR cycle(training.adamw, {.max_lr = 0.01, .epochs = 1, .steps_per_epoch = 2});
    auto scheduler = training.accelerator.prepare(cycle);
    training.step();
    scheduler.step();
    EXPECT_EQ(cycle.last_epoch(), std::min(group->size(), 2));
    for (int i = 0; i < 3; ++i) scheduler.step();
    EXPECT_EQ(cycle.last_epoch(), 2);
  });
}

TEST_P(OnRanks, OneCycleStepsByItselfWhenItIsNotToFollowTheOptimizer) {
  run_ranks_shared(GetParam(), [](const Group& group) {
    ScheduledTraining training({.step_scheduler_with_optimizer = false, .communicator = group});
    OneCycleLR cycle(training.adamw, {.max_lr = 0.01, .epochs = 1, .steps_per_epoch = 2});
    auto scheduler = training.accelerator.prepare(cycle);
    scheduler.step();
    EXPECT_EQ(cycle.last_epoch(), 1);
  });
}

// Rates of the linear schedule after each of `micro_batches`, two of which make a step.
Numbers accumulate(const Group& group, bool adjust, std::int64_t training_steps,
                   int micro_batches) {
  ScheduledTraining training(
      {.gradient_accumulation_plugin =
           GradientAccumulationPlugin{.num_steps = 2, .adjust_scheduler = adjust},
       .communicator = group},
      4.0);
  auto scheduler = training.accelerator.prepare(get_scheduler(
      "linear", training.adamw, {.num_warmup_steps = 0, .num_training_steps = training_steps}));
  Numbers rates;
  for (int i = 0; i < micro_batches; ++i) {
    auto window = training.accelerator.accumulate(training.model);
    training.step();
    scheduler.step();
    rates.push_back(scheduler.get_last_lr()[0]);
  }
  return rates;
}

TEST_P(OnRanks, AccumulationTakesTheScheduleOnByStepsOfTheOptimizer) {
  const LogCapture quiet;
  run_ranks_shared(GetParam(), [](const Group& group) {
    const int ranks = group->size();
    const auto rates = accumulate(group, false, 10 * ranks, 20);
    EXPECT_EQ(rates[0], 4.0) << "while gradients accumulate nothing moves";
    EXPECT_EQ(rates[1], 4.0 * (9.0 * ranks / (10.0 * ranks)));
    EXPECT_EQ(rates[2], rates[1]);
    EXPECT_EQ(rates.back(), 0.0);
    EXPECT_NE(rates[rates.size() - 3], 0.0);
  });
}

// The schedule is planned in micro-batches: 20 of them on each rank.
TEST_P(OnRanks, AnAdjustedScheduleIsTakenOnByTheWindowsMicroBatches) {
  const LogCapture quiet;
  run_ranks_shared(GetParam(), [](const Group& group) {
    const auto rates = accumulate(group, true, 20 * group->size(), 20);
    for (int i = 0; i < 20; ++i) EXPECT_DOUBLE_EQ(rates[i], 4.0 * (10 - (i + 1) / 2) / 10) << i;
  });
}

TEST_P(OnRanks, APlateauIsSteppedOnceWithTheMetricOfAll) {
  const LogCapture log;
  std::mutex mutex;
  std::set<double> rates;
  run_ranks_shared(GetParam(), [&](const Group& group) {
    ScheduledTraining training({.communicator = group});
    ReduceLROnPlateau plateau(training.adamw, {.factor = 0.5, .patience = 1});
    auto scheduler = training.accelerator.prepare(plateau);
    for (int i = 0; i < 3; ++i) {
      training.step();
      scheduler.step(1.0);
      EXPECT_EQ(plateau.last_epoch(), i + 1);
    }
    EXPECT_EQ(scheduler.get_last_lr(), Numbers{0.5});
    scheduler.step(0.5 + group->rank());  // Each rank its own.
    EXPECT_EQ(plateau.best(), std::min(1.0, 0.5 + (group->size() - 1) / 2.0));
    for (int i = 0; i < 2; ++i) scheduler.step(group->rank() == 0 ? 0.0 : 9.0);
    const std::lock_guard lock(mutex);
    rates.insert(scheduler.get_last_lr()[0]);
  });
  EXPECT_EQ(rates.size(), 1u) << "ranks agree whatever they bring";
  const auto lines = log.lines();
  const auto warnings = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("different metrics; their mean is used") != std::string::npos;
  });
  EXPECT_EQ(warnings, GetParam() == 1 ? 0 : 1);
}

TEST(AcceleratedScheduler, SaysOnceHowStepsCountUnlessItIsToldHow) {
  for (const bool told : {true, false}) {
    const LogCapture log;
    run_ranks_shared(5, [told](const Group& group) {  // A size of its own: once per text.
      Accelerator accelerator(
          {.scheduler_step = told ? std::optional(SchedulerStep::per_process) : std::nullopt,
           .communicator = group});
      torch::optim::SGD sgd({torch::ones({1}, torch::requires_grad())}, 1.0);
      (void)accelerator.prepare(get_scheduler("constant", sgd));
      (void)accelerator.prepare(get_scheduler("constant", sgd));
      (void)accelerator.prepare(get_scheduler("reduce_lr_on_plateau", sgd));
    });
    const auto lines = log.lines();
    ASSERT_EQ(lines.size(), told ? 0u : 1u);
    if (told) continue;
    for (const char* part :
         {"WARNING", "5 steps on", "num_training_steps", "SchedulerStep::once"}) {
      EXPECT_NE(lines[0].find(part), std::string::npos) << lines[0];
    }
  }
}

TEST(AcceleratedScheduler, ScheduleWithAMetricHasNothingToSayAboutSteps) {
  const LogCapture log;
  run_ranks_shared(2, [](const Group& group) {
    Accelerator accelerator({.communicator = group});
    torch::optim::SGD sgd({torch::ones({1}, torch::requires_grad())}, 1.0);
    (void)accelerator.prepare(get_scheduler("reduce_lr_on_plateau", sgd));
  });
  EXPECT_TRUE(log.lines().empty());
}

// --- which optimizer -----------------------------------------------------------------------------

TEST(AcceleratedScheduler, FollowsItsOwnOptimizerAndNoOther) {
  ScheduledTraining training({.communicator = single_communicator()});
  torch::optim::SGD other({torch::ones({1}, torch::requires_grad())}, 1.0);
  auto own =
      get_scheduler("linear", training.adamw, {.num_warmup_steps = 0, .num_training_steps = 4});
  auto others = get_scheduler("linear", other, {.num_warmup_steps = 0, .num_training_steps = 4});
  torch::optim::StepLR unknown(other, 1, 0.5);
  auto [a, b, c, prepared_other] = training.accelerator.prepare(own, others, unknown, other);
  training.step(true);
  a.step();
  b.step();
  c.step();
  EXPECT_EQ(a.get_last_lr(), Numbers{1.0}) << "its optimizer skipped";
  EXPECT_EQ(b.get_last_lr(), Numbers{0.75}) << "its optimizer has nothing to do with that";
  EXPECT_EQ(c.scheduler().last_epoch(), 0) << "one of all skipped, and it does not tell its own";
  training.step();
  a.step();
  EXPECT_EQ(a.get_last_lr(), Numbers{0.75});
}

TEST(AcceleratedScheduler, MayBeMadeForAPreparedOptimizer) {
  ScheduledTraining training({.communicator = single_communicator()});
  auto scheduler = training.accelerator.prepare(get_scheduler(
      "linear", training.optimizer, {.num_warmup_steps = 0, .num_training_steps = 4}));
  training.step(true);
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), Numbers{1.0}) << "knows its optimizer";
  training.step();
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), Numbers{0.75});
}

// As in Python: only prepared schedules follow the optimizer. The rates of a schedule beside a bare
// optimizer are compared with Python's elsewhere.
TEST_P(OnRanks, AScheduleMadeAfterPrepareStepsAtEveryCallUnlessItIsPreparedToo) {
  const SchedulerOptions options{.num_warmup_steps = 1, .num_training_steps = 5};
  torch::nn::Linear other{2, 4};
  torch::optim::AdamW bare(other->parameters(), torch::optim::AdamWOptions(4.0));
  const auto of_bare = get_scheduler("linear", bare, options);
  std::vector<Numbers> expected;
  for (int i = 0; i < 4; ++i) {
    of_bare.step();
    expected.push_back(of_bare.get_last_lr());
  }
  run_ranks_shared(GetParam(), [&](const Group& group) {
    ScheduledTraining training({.gradient_accumulation_steps = 2, .communicator = group}, 4.0);
    auto lr_scheduler = get_scheduler("linear", training.optimizer, options);
    for (const auto& rates : expected) {
      auto window = training.accelerator.accumulate(training.model);
      training.step();
      lr_scheduler.step();
      EXPECT_EQ(lr_scheduler.get_last_lr(), rates);
      EXPECT_EQ(detail::group_rates(training.adamw), rates);
    }
    auto prepared = training.accelerator.prepare(lr_scheduler);
    EXPECT_EQ(&prepared.scheduler(), lr_scheduler.get());
  });
}

TEST(AcceleratedScheduler, PreparingAgainGivesTheSame) {
  ScheduledTraining training({.communicator = single_communicator()});
  auto shared = get_scheduler("constant", training.adamw);
  auto stack = one_tenth_less(training.adamw);
  auto first = training.accelerator.prepare(shared);
  EXPECT_EQ(first.core(), training.accelerator.prepare(shared).core());
  EXPECT_EQ(first.core(), training.accelerator.prepare(first).core());
  auto second = training.accelerator.prepare(stack);
  EXPECT_EQ(second.core(), training.accelerator.prepare(stack).core());
  EXPECT_NE(first.core(), second.core());
  EXPECT_EQ(&second.scheduler(), &stack);
  auto only_here = training.accelerator.prepare(get_scheduler("constant", training.adamw));
  only_here.step();
  EXPECT_EQ(only_here.scheduler().last_epoch(), 1);
}

// --- LibTorch's own ------------------------------------------------------------------------------

TEST(LibTorchSchedulers, StepAndResume) {
  ScheduledTraining training({.communicator = single_communicator()});
  torch::optim::StepLR steps(training.adamw, 2, 0.5);
  auto scheduler = training.accelerator.prepare(steps);
  for (int i = 0; i < 3; ++i) scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), Numbers{0.5});
  const auto state = scheduler.state_dict();
  auto shared = std::make_shared<torch::optim::StepLR>(training.adamw, 2, 0.5);
  auto resumed = training.accelerator.prepare(shared);
  resumed.load_state_dict(state);
  EXPECT_EQ(resumed.scheduler().last_epoch(), 3);
  resumed.step();
  resumed.step();
  EXPECT_EQ(resumed.get_last_lr(), Numbers{0.25}) << "a new one would have begun to count at 0";
}

TEST(LibTorchSchedulers, PlateauWantsItsMetricAndCannotBeSaved) {
  ScheduledTraining training({.communicator = single_communicator()});
  torch::optim::ReduceLROnPlateauScheduler plateau(
      training.adamw, torch::optim::ReduceLROnPlateauScheduler::min, 0.5, 1);
  auto scheduler = training.accelerator.prepare(plateau);
  for (int i = 0; i < 3; ++i) scheduler.step(1.0);
  EXPECT_EQ(scheduler.get_last_lr(), Numbers{0.5});
  EXPECT_THROW(scheduler.step(), UsageError);
  EXPECT_THROW((void)scheduler.state_dict(), UsageError);
}

// --- mistakes ------------------------------------------------------------------------------------

TEST(AcceleratedScheduler, MistakesAreUsageErrors) {
  ScheduledTraining training({.communicator = single_communicator()});
  auto constant = training.accelerator.prepare(get_scheduler("constant", training.adamw));
  auto plateau =
      training.accelerator.prepare(get_scheduler("reduce_lr_on_plateau", training.adamw));
  EXPECT_THROW(constant.step(1.0), UsageError);
  EXPECT_THROW(plateau.step(), UsageError);
  EXPECT_THROW((void)training.accelerator.prepare(std::shared_ptr<LRScheduler>()), UsageError);
}

}  // namespace
}  // namespace accelerate
