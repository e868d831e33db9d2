// What goes wrong in a training loop: exceptions at every point of a micro-batch, losses that
// cannot be differentiated, calls in the wrong order. Each ends in the right result or in a
// sentence.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::message_of;

// One weight of 0, a rate of 1, two micro-batches a step: a step of good micro-batches is -1.
struct MishapLoop {
  explicit MishapLoop(AcceleratorOptions options = {}, int steps = 2)
      : accelerator([&] {
          options.gradient_accumulation_steps = steps;
          options.grad_scaler.init_scale = 1024;  // so that the first step does not overflow
          if (!options.communicator) options.communicator = single_communicator();
          return options;
        }()),
        sgd(net->parameters(), 1.0),
        model(accelerator.prepare(net)),
        optimizer(accelerator.prepare(sgd)) {
    const at::NoGradGuard no_grad;
    net->weight.zero_();
  }

  [[nodiscard]] at::Tensor loss() { return model(torch::ones({1, 1})).sum(); }
  [[nodiscard]] double weight() const { return net->weight.item<double>(); }
  [[nodiscard]] double gradient() const { return net->weight.grad().item<double>(); }

  // A micro-batch that fails where it is told to.
  enum class Fails { never, in_forward, after_backward, after_step, at_the_end };
  void micro_batch(Fails fails = Fails::never, const BackwardOptions& options = {}) {
    const auto fail_at = [fails](Fails here) {
      if (fails == here) throw DataError("a mishap");
    };
    const auto window = accelerator.accumulate(model);
    const auto value = loss();
    fail_at(Fails::in_forward);
    accelerator.backward(value, options);
    fail_at(Fails::after_backward);
    optimizer.step();
    fail_at(Fails::after_step);
    optimizer.zero_grad();
    fail_at(Fails::at_the_end);
  }

  Accelerator accelerator;
  torch::nn::Linear net{torch::nn::LinearOptions(1, 1).bias(false)};
  torch::optim::SGD sgd;
  Prepared<torch::nn::Linear> model;
  AcceleratedOptimizer optimizer;
};
using Fails = MishapLoop::Fails;

TEST(TrainingMishaps, AMicroBatchThatFailsBeforeItsBackwardIsRunAgain) {
  MishapLoop loop;
  loop.micro_batch();
  EXPECT_THROW(loop.micro_batch(Fails::in_forward), DataError);
  loop.micro_batch();
  EXPECT_EQ(loop.weight(), -1.0);
}

// Its gradients are in the sum already: run again it would count twice.
TEST(TrainingMishaps, AMicroBatchThatFailsAfterItsBackwardCannotBeSteppedOn) {
  for (const auto fails : {Fails::after_backward, Fails::after_step}) {
    MishapLoop loop;
    loop.micro_batch();
    EXPECT_THROW(loop.micro_batch(fails), DataError);
    const double before = loop.weight();
    EXPECT_NE(message_of<UsageError>([&] { loop.micro_batch(); }).find("zero_grad()"),
              std::string::npos);
    EXPECT_EQ(loop.weight(), before);
    loop.optimizer.zero_grad();
    loop.micro_batch();
    EXPECT_EQ(loop.weight(), before) << "the window began anew";
    loop.micro_batch();
    EXPECT_EQ(loop.weight(), before - 1.0);
  }
}

TEST(TrainingMishaps, AnExceptionAfterZeroGradLosesNothing) {
  MishapLoop loop;
  loop.micro_batch();
  EXPECT_THROW(loop.micro_batch(Fails::at_the_end), DataError);
  EXPECT_EQ(loop.weight(), -1.0);
  loop.micro_batch();
  EXPECT_EQ(loop.weight(), -1.0);
  loop.micro_batch();
  EXPECT_EQ(loop.weight(), -2.0);
}

TEST(TrainingMishaps, ABackwardThatFailsSpoilsTheGradientsOutsideOfAWindowToo) {
  MishapLoop loop({}, 1);
  const auto used_up = loop.loss().pow(2);
  used_up.backward();
  EXPECT_THROW(loop.accelerator.backward(used_up), c10::Error);
  EXPECT_NE(message_of<UsageError>([&] { loop.optimizer.step(); }).find("zero_grad()"),
            std::string::npos);
  loop.net->zero_grad();  // drops them as well
  loop.accelerator.backward(loop.loss());
  loop.optimizer.step();
  EXPECT_EQ(loop.weight(), -1.0);
}

TEST(TrainingMishaps, ItemsOfADroppedWindowDoNotCountInTheNext) {
  MishapLoop loop;
  const BackwardOptions one{.num_items = 1};
  for (const auto fails : {Fails::in_forward, Fails::after_backward}) {
    const double before = loop.weight();
    loop.micro_batch(Fails::never, one);
    EXPECT_THROW(loop.micro_batch(fails, one), DataError);
    loop.optimizer.zero_grad();
    loop.micro_batch(Fails::never, one);
    loop.micro_batch(Fails::never, one);
    EXPECT_EQ(loop.weight(), before - 1.0);
  }
}

TEST(TrainingMishaps, ItemsOfAMicroBatchThatIsRunAgainCountOnce) {
  MishapLoop loop;
  const BackwardOptions one{.num_items = 1};
  loop.micro_batch(Fails::never, one);
  EXPECT_THROW(loop.micro_batch(Fails::in_forward, one), DataError);
  loop.micro_batch(Fails::never, one);
  EXPECT_EQ(loop.weight(), -1.0);
}

// The gradients of the first loss would be divided by both counts.
TEST(TrainingMishaps, CountedLossesOfOneMicroBatchAreAddedUpBeforeTheirBackward) {
  MishapLoop loop({}, 1);
  const BackwardOptions two{.num_items = 2};
  loop.accelerator.backward(loop.loss(), two);
  const auto again = [&] { loop.accelerator.backward(loop.loss(), two); };
  EXPECT_NE(message_of<UsageError>(again).find("Add the losses"), std::string::npos);
  EXPECT_EQ(loop.gradient(), 0.5);
  loop.optimizer.step();
  loop.optimizer.zero_grad();
  again();
  EXPECT_EQ(loop.gradient(), 0.5) << "in the next step";
  loop.net->zero_grad();
  again();
  EXPECT_EQ(loop.gradient(), 0.5) << "dropped behind the optimizer's back";
}

TEST(TrainingMishaps, LossesThatCannotBeDifferentiatedAreRefusedInWords) {
  MishapLoop loop;
  const std::vector<std::pair<std::function<at::Tensor()>, std::string>> table = {
      {[] { return at::Tensor(); }, "an undefined tensor"},
      {[&] { return loop.model(torch::ones({2, 1})); }, "shape [2, 1]"},
      {[&] { return loop.loss().detach(); }, "depends on no parameter"},
      {[] { return torch::ones({}, at::kLong); }, "depends on no parameter"},
      {[&] {
         const at::NoGradGuard no_grad;
         return loop.loss();
       },
       "NoGradGuard"}};
  for (const auto& [bad, said] : table) {
    const auto text = message_of<UsageError>([&, &bad = bad] { loop.accelerator.backward(bad()); });
    EXPECT_NE(text.find(said), std::string::npos) << text;
  }
  loop.micro_batch();
  loop.micro_batch();
  EXPECT_EQ(loop.weight(), -1.0) << "nothing was spoilt";
}

TEST(TrainingMishaps, AWindowInsideAWindowIsRefused) {
  MishapLoop loop;
  const auto nested = [&] {
    const auto outer = loop.accelerator.accumulate(loop.model);
    const auto inner = loop.accelerator.accumulate(loop.model);
  };
  EXPECT_NE(message_of<UsageError>(nested).find("accumulate(first, second)"), std::string::npos);
  loop.micro_batch();
  loop.micro_batch();
  EXPECT_EQ(loop.weight(), -1.0);
}

TEST(TrainingMishaps, AModelNamedTwiceInAWindowSynchronisesAfterIt) {
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    MishapLoop loop({.communicator = comm});
    {
      const auto window = loop.accelerator.accumulate(loop.model, loop.model);
    }
    loop.accelerator.backward(loop.loss() * comm->rank());
    EXPECT_EQ(loop.gradient(), 0.25);
  });
}

TEST(TrainingMishaps, ScaledGradientsAreNotAddedToUnscaledOnes) {
  MishapLoop loop({.mixed_precision = MixedPrecision::fp16}, 1);
  loop.accelerator.backward(loop.loss());
  loop.accelerator.clip_grad_norm_(loop.model.parameters(), 10.0);
  const auto text = message_of<UsageError>([&] { loop.accelerator.backward(loop.loss()); });
  EXPECT_NE(text.find("after the last backward"), std::string::npos) << text;
  EXPECT_THROW(loop.optimizer.step(), UsageError);
  loop.optimizer.zero_grad();
  loop.micro_batch();
  EXPECT_EQ(loop.weight(), -1.0);
}

// A scope that lasts longer than a forward keeps the weights that it converted.
TEST(TrainingMishaps, AnAutocastScopeAroundTheLoopSeesTheWeightsAfterEachStep) {
  Accelerator accelerator(
      {.mixed_precision = MixedPrecision::bf16, .communicator = single_communicator()});
  torch::nn::Conv1d net(torch::nn::Conv1dOptions(1, 1, 1).bias(false));
  torch::nn::init::zeros_(net->weight);
  torch::optim::SGD sgd(net->parameters(), 1.0);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto scope = accelerator.autocast();
  for (const double weight : {0.0, -1.0, -2.0}) {
    const auto loss = model(torch::ones({1, 1, 1})).sum();
    EXPECT_EQ(loss.item<double>(), weight);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
}

TEST(TrainingMishaps, AnOptimizerAtTheAddressOfAnotherOneIsUnscaledAfresh) {
  Accelerator accelerator({.mixed_precision = MixedPrecision::fp16,
                           .grad_scaler = {.init_scale = 1024},
                           .communicator = single_communicator()});
  std::optional<torch::optim::SGD> sgd;  // both at one address
  for (const bool breaks_off : {true, false}) {
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    torch::nn::init::zeros_(net->weight);
    sgd.emplace(net->parameters(), 1.0);
    auto [model, optimizer] = accelerator.prepare(net, *sgd);
    accelerator.backward(model(torch::ones({1, 1})).sum());
    optimizer.unscale_gradients();
    if (breaks_off) continue;
    optimizer.step();
    EXPECT_EQ(net->weight.item<double>(), -1.0);
  }
}

}  // namespace
}  // namespace accelerate
