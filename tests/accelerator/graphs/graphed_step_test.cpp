// A recorded step trains as the step itself. The graphs here are tapes of the CPU's operators, so
// what is shown is what this library does around a graph; tests/gpu has CUDA's graphs.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/optim/algorithms/lion.h"
#include "tests/accelerator/graphs/operator_tape.h"
#include "tests/support/log_capture.h"
#include "tests/support/supervised.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::made_with;
using testing::make_operator_tape;
using testing::MakeOptimizer;
using testing::OperatorTapeCounts;
using Batch = testing::Sample;

Batch batch_of(std::int64_t samples, double seed) {
  const auto x = torch::sin(torch::arange(samples * 4, at::kFloat) * 0.7 + seed).view({samples, 4});
  return {x, x.sum(1, true).cos()};
}

// Rates that fp32 holds exactly, because replays read them in fp32.
constexpr double kRate = 1.0 / 64;

const MakeOptimizer kAdamW =
    made_with<torch::optim::AdamW>(torch::optim::AdamWOptions(kRate).weight_decay(0.1));

// A net with its optimizer, its schedule and a step that may be recorded.
struct Training {
  explicit Training(const MakeOptimizer& make, const AcceleratorOptions& options = alone())
      : accelerator(options) {
    torch::manual_seed(5);
    net = torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                torch::nn::Tanh(), torch::nn::Linear(8, 1));
    raw = make(net->parameters());
    optimizer = std::make_unique<AcceleratedOptimizer>(accelerator.prepare(*raw));
    model = std::make_unique<Prepared<torch::nn::Sequential>>(accelerator.prepare(net));
  }

  static AcceleratorOptions alone() { return {.cpu = true, .communicator = single_communicator()}; }

  at::Tensor step(Batch& batch) {
    ++calls;
    const auto loss = torch::mse_loss((*model)(batch.x), batch.y);
    accelerator.backward(loss);
    accelerator.clip_grad_norm_(net->parameters(), 1e-3);
    optimizer->step();
    optimizer->zero_grad();
    return loss.detach();
  }

  GraphedStep<Batch> graphed(const testing::OperatorTapeOptions& tape = {}, int warm_up = 2) {
    return {accelerator,
            [this](Batch& batch) { return step(batch); },
            {.warm_up = warm_up},
            make_operator_tape(counts, tape)};
  }

  void set_rate(double rate) {
    for (auto& group : raw->param_groups()) group.options().set_lr(rate);
  }

  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> found;
    for (const auto& parameter : net->parameters()) found.push_back(parameter.detach().clone());
    for (const auto& buffer : net->buffers()) found.push_back(buffer.detach().clone());
    return found;
  }

  Accelerator accelerator;
  torch::nn::Sequential net{nullptr};
  std::unique_ptr<torch::optim::Optimizer> raw;
  std::unique_ptr<AcceleratedOptimizer> optimizer;
  std::unique_ptr<Prepared<torch::nn::Sequential>> model;
  std::shared_ptr<OperatorTapeCounts> counts = std::make_shared<OperatorTapeCounts>();
  int calls = 0;
};

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i].equal(expected[i])) << i << "\n" << found[i] << expected[i];
  }
}

class EveryOptimizer : public ::testing::TestWithParam<std::pair<const char*, MakeOptimizer>> {};

TEST_P(EveryOptimizer, TrainsBitForBitAsTheStepItself) {
  Training eager(GetParam().second), recorded(GetParam().second);
  auto step = recorded.graphed();
  for (int i = 0; i < 8; ++i) {
    const double rate = kRate / (1 << (i / 3));  // A schedule outside of the step.
    eager.set_rate(rate);
    recorded.set_rate(rate);
    auto batch = batch_of(6, i);
    const auto expected = eager.step(batch);
    EXPECT_TRUE(step(batch).equal(expected)) << i;
  }
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(recorded.calls, 3);  // Two to warm up, one to record.
  EXPECT_EQ(recorded.counts->warm_ups, 2);
  EXPECT_EQ(recorded.counts->captures, 1);
  EXPECT_EQ(recorded.counts->replays, 6);
  expect_equal(recorded.values(), eager.values());
}

INSTANTIATE_TEST_SUITE_P(
    Of, EveryOptimizer,
    ::testing::Values(
        std::pair<const char*, MakeOptimizer>("AdamW", kAdamW),
        std::pair<const char*, MakeOptimizer>(
            "AmsGrad",
            made_with<torch::optim::Adam>(torch::optim::AdamOptions(kRate).amsgrad(true))),
        std::pair<const char*, MakeOptimizer>(
            "Adagrad",
            made_with<torch::optim::Adagrad>(torch::optim::AdagradOptions(kRate).lr_decay(0.25))),
        std::pair<const char*, MakeOptimizer>(
            "Sgd", made_with<torch::optim::SGD>(torch::optim::SGDOptions(kRate))),
        std::pair<const char*, MakeOptimizer>(
            "Momentum", made_with<torch::optim::SGD>(
                            torch::optim::SGDOptions(kRate).momentum(0.5).nesterov(true)))),
    [](const auto& info) { return std::string(info.param.first); });

TEST(GraphedStep, RunsABatchOfAnotherShapeAsItIs) {
  Training eager(kAdamW), recorded(kAdamW);
  auto step = recorded.graphed();
  for (int i = 0; i < 9; ++i) {
    auto batch = batch_of(i % 4 == 3 ? 3 : 6, i);  // The last batch of an epoch is short.
    const auto expected = eager.step(batch);
    EXPECT_TRUE(step(batch).equal(expected)) << i;
  }
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(step.reason(), "");
  EXPECT_EQ(recorded.counts->captures, 1);
  expect_equal(recorded.values(), eager.values());
}

TEST(GraphedStep, KeepsItsResultsWhenTheNextStepIsMade) {
  Training training(kAdamW);
  auto step = training.graphed();
  for (int i = 0; i < 3; ++i) step(batch_of(6, i));
  const auto first = step(batch_of(6, 3)), copy = first.clone();
  step(batch_of(6, 4));
  EXPECT_TRUE(first.equal(copy));
}

TEST(GraphedStep, CountsStepsInTheStateThatIsSaved) {
  Training eager(kAdamW), recorded(kAdamW);
  auto step = recorded.graphed();
  for (int i = 0; i < 7; ++i) {
    auto batch = batch_of(6, i);
    eager.step(batch);
    step(batch);
  }
  const auto steps_of = [](const Training& training) {
    std::vector<std::int64_t> steps;
    for (const auto& parameter : training.net->parameters()) {
      const auto& state = training.raw->state().at(parameter.unsafeGetTensorImpl());
      steps.push_back(static_cast<torch::optim::AdamWParamState&>(*state).step());
    }
    return steps;
  };
  EXPECT_EQ(steps_of(recorded), steps_of(eager));
}

TEST(GraphedStep, RecordsAnewWhenOptionsOrStateAreReplaced) {
  Training eager(kAdamW), recorded(kAdamW);
  auto step = recorded.graphed();
  const testing::TemporaryFolder folder;
  const auto both = [&](double seed) {
    auto batch = batch_of(6, seed);
    const auto expected = eager.step(batch);
    EXPECT_TRUE(step(batch).equal(expected)) << seed;
  };
  for (int i = 0; i < 5; ++i) both(i);
  for (auto* training : {&eager, &recorded}) {
    for (auto& group : training->raw->param_groups())
      static_cast<torch::optim::AdamWOptions&>(group.options()).weight_decay(0.5);
  }
  for (int i = 5; i < 8; ++i) both(i);
  EXPECT_EQ(recorded.counts->captures, 2);
  recorded.accelerator.save_state(folder.path() / "recorded");
  eager.accelerator.save_state(folder.path() / "eager");
  for (int i = 8; i < 10; ++i) both(i);
  recorded.accelerator.load_state(folder.path() / "recorded");
  eager.accelerator.load_state(folder.path() / "eager");
  for (int i = 8; i < 12; ++i) both(i);
  EXPECT_TRUE(step.is_captured());
  expect_equal(recorded.values(), eager.values());
}

TEST(GraphedStep, RecordsAnewWhenAParameterIsFrozenOrItsStateIsNew) {
  Training eager(kAdamW), recorded(kAdamW);
  auto step = recorded.graphed();
  const auto both = [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      auto batch = batch_of(6, i);
      const auto expected = eager.step(batch);
      EXPECT_TRUE(step(batch).equal(expected)) << i;
    }
  };
  both(0, 5);
  for (auto* training : {&eager, &recorded}) training->net->parameters()[0].requires_grad_(false);
  both(5, 9);
  EXPECT_EQ(recorded.counts->captures, 2);
  for (auto* training : {&eager, &recorded}) {
    training->net->parameters()[0].requires_grad_(true);
    training->raw->state().erase(training->net->parameters()[1].unsafeGetTensorImpl());
  }
  both(9, 14);
  EXPECT_EQ(recorded.counts->captures, 3);
  EXPECT_TRUE(step.is_captured());
  expect_equal(recorded.values(), eager.values());
}

TEST(GraphedStep, SharesOptimizersWithAnother) {
  Training eager(kAdamW), recorded(kAdamW);
  auto large = recorded.graphed(), small = recorded.graphed();
  for (int i = 0; i < 12; ++i) {
    auto batch = batch_of(i % 2 == 0 ? 6 : 4, i);
    const auto expected = eager.step(batch);
    auto& step = i % 2 == 0 ? large : small;
    EXPECT_TRUE(step(batch).equal(expected)) << i;
  }
  EXPECT_TRUE(large.is_captured() && small.is_captured());
  EXPECT_EQ(recorded.counts->captures, 2);
  expect_equal(recorded.values(), eager.values());
}

TEST(GraphedStep, WaitsUntilWhatIsInItsWayHasGone) {
  Training training(kAdamW);
  auto step = training.graphed();
  training.accelerator.set_gradient_accumulation_steps(2);
  for (int i = 0; i < 4; ++i) step(batch_of(6, i));
  EXPECT_EQ(step.reason(), "gradients accumulate over 2 batches, and a graph holds one step");
  training.accelerator.set_gradient_accumulation_steps(1);
  for (int i = 0; i < 4; ++i) step(batch_of(6, i));
  EXPECT_TRUE(step.is_captured());
  EXPECT_EQ(step.reason(), "");
}

// A step that cannot be recorded runs as it is, and says why.
struct Refusal {
  const char* name;
  MakeOptimizer optimizer;
  AcceleratorOptions options;
  testing::OperatorTapeOptions tape;
  std::function<void(Training&)> in_step;
  const char* reason;
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, TrainsAsTheStepItselfAndSaysWhy) {
  const Refusal& given = GetParam();
  Training eager(given.optimizer, given.options), recorded(given.optimizer, given.options);
  const auto full_step = [&](Training& training, Batch& batch) {
    auto loss = training.step(batch);
    if (given.in_step) given.in_step(training);
    return loss;
  };
  const testing::LogCapture log;
  GraphedStep<Batch> step(
      recorded.accelerator, [&](Batch& batch) { return full_step(recorded, batch); },
      {.warm_up = 1}, make_operator_tape(recorded.counts, given.tape));
  for (int i = 0; i < 6; ++i) {
    auto batch = batch_of(6, i);
    const auto expected = full_step(eager, batch);
    EXPECT_TRUE(step(batch).equal(expected)) << i;
  }
  EXPECT_FALSE(step.is_captured());
  EXPECT_NE(step.reason().find(given.reason), std::string::npos) << step.reason();
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find(given.reason), std::string::npos) << lines[0];
  EXPECT_EQ(recorded.counts->replays, 0);
  expect_equal(recorded.values(), eager.values());
}

AcceleratorOptions with(AcceleratorOptions options) {
  options.cpu = true;
  options.communicator = single_communicator();
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    Because, Refused,
    ::testing::Values(
        Refusal{"Accumulation",
                kAdamW,
                with({.gradient_accumulation_steps = 2}),
                {},
                nullptr,
                "gradients accumulate over 2 batches"},
        Refusal{"Fp16",
                kAdamW,
                with({.mixed_precision = MixedPrecision::fp16}),
                {},
                nullptr,
                "precision is fp16"},
        Refusal{"Lion",
                made_with<Lion>(LionOptions(kRate)),
                with({}),
                {},
                nullptr,
                "an optimizer reads its rate on the CPU"},
        Refusal{"ARead",
                kAdamW,
                with({}),
                {.refuses_reads = true},
                [](Training& training) { (void)training.net->parameters()[0].sum().item<float>(); },
                "recording it failed: operation not permitted when stream is capturing"},
        Refusal{"AScheduleInside",
                kAdamW,
                with({}),
                {},
                [](Training& training) {
                  training.set_rate(training.raw->param_groups()[0].options().get_lr() / 2);
                },
                "a learning rate changed inside the recorded step"},
        Refusal{"NumItems",
                kAdamW,
                with({}),
                {},
                [](Training& training) {
                  auto batch = batch_of(6, 0.5);
                  training.accelerator.backward((*training.model)(batch.x).sum(), {.num_items = 6});
                  training.optimizer->zero_grad();
                },
                "backward() was given num_items = 6"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GraphedStep, SaysThatACpuHasNoGraphs) {
  Training training(kAdamW);
  GraphedStep step(training.accelerator, [&](Batch& batch) { return training.step(batch); });
  EXPECT_TRUE(step(batch_of(6, 0)).defined());
  EXPECT_EQ(step.reason(), "the device is cpu, and graphs are for GPUs");
}

TEST(GraphedStep, RefusesToRecordTheFirstStep) {
  Training training(kAdamW);
  try {
    auto step = training.graphed({}, 0);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("warm_up is 0; allowed is 1 or more"),
              std::string::npos);
  }
}

TEST(GraphedStep, ReturnsAnyNestedOutput) {
  Training training(kAdamW);
  GraphedStep step(
      training.accelerator,
      [&](Batch& batch) { return std::vector{training.step(batch), batch.x * 2}; },
      GraphedStepOptions{.warm_up = 1}, make_operator_tape());
  for (int i = 0; i < 4; ++i) {
    const auto batch = batch_of(6, i);
    EXPECT_TRUE(step(batch)[1].equal(batch.x * 2)) << i;
  }
  EXPECT_TRUE(step.is_captured());
}

}  // namespace
}  // namespace accelerate
