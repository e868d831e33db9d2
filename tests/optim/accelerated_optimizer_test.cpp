// AcceleratedOptimizer and the tensors inside LibTorch's optimizer states.
#include "accelerate/optim/accelerated_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/optim/clipping.h"
#include "accelerate/optim/optimizer_state.h"
#include "tests/optim/optimizers.h"
#include "tests/optim/scaled.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Scaled;

at::Tensor stepped_parameter(torch::optim::Optimizer& optimizer) {
  auto parameter = optimizer.param_groups()[0].params()[0];
  parameter.mutable_grad() = torch::ones_like(parameter);
  optimizer.step([&] { return torch::tensor(1.0, torch::requires_grad()); });
  return parameter;
}

std::vector<std::unique_ptr<torch::optim::Optimizer>> every_optimizer() {
  using namespace torch::optim;
  const auto leaf = [] {
    return std::vector<at::Tensor>{torch::ones({3}, torch::requires_grad())};
  };
  std::vector<std::unique_ptr<Optimizer>> all;
  all.push_back(std::make_unique<SGD>(leaf(), SGDOptions(0.1).momentum(0.9)));
  all.push_back(std::make_unique<Adam>(leaf(), AdamOptions(0.1).amsgrad(true)));
  all.push_back(std::make_unique<AdamW>(leaf(), AdamWOptions(0.1).amsgrad(true)));
  all.push_back(std::make_unique<Adagrad>(leaf(), AdagradOptions(0.1)));
  all.push_back(
      std::make_unique<RMSprop>(leaf(), RMSpropOptions(0.1).momentum(0.9).centered(true)));
  all.push_back(std::make_unique<LBFGS>(leaf(), LBFGSOptions(0.1).max_iter(2)));
  return all;
}

TEST(OptimizerState, EveryTensorOfTheSixOptimizersIsVisitedAndReplaced) {
  const std::vector<std::size_t> expected = {1, 3, 3,
                                             1, 3, 3};  // moments, sums and buffers of each
  const auto all = every_optimizer();
  for (std::size_t i = 0; i < all.size(); ++i) {
    stepped_parameter(*all[i]);
    std::size_t seen = 0;
    map_state_tensors(*all[i], [&seen](const at::Tensor& tensor) {
      ++seen;
      return tensor.to(at::kMeta);
    });
    EXPECT_GE(seen, expected[i]) << i;
    map_state_tensors(*all[i], [i](const at::Tensor& tensor) {
      EXPECT_TRUE(tensor.is_meta()) << i;
      return tensor;
    });
  }
}

struct OwnState : torch::optim::OptimizerCloneableParamState<OwnState> {};

TEST(OptimizerState, AForeignStateIsRefusedByType) {
  torch::optim::SGD sgd({torch::ones({1}, torch::requires_grad())}, 0.1);
  sgd.state()[sgd.param_groups()[0].params()[0].unsafeGetTensorImpl()] =
      std::make_unique<OwnState>();
  try {
    map_state_tensors(sgd, [](const at::Tensor& tensor) { return tensor; });
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("OwnState"), std::string::npos) << error.what();
  }
}

TEST(AcceleratedOptimizer, StepsAndClearsOnlyWhenGradientsAreSynchronised) {
  auto gradient_state = std::make_shared<GradientState>();
  auto parameter = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD sgd({parameter}, 0.5);
  AcceleratedOptimizer optimizer(sgd, gradient_state);
  parameter.mutable_grad() = torch::ones({2});
  gradient_state->sync_gradients = false;
  optimizer.step();
  optimizer.zero_grad();
  EXPECT_EQ(parameter[0].item<double>(), 1.0);
  EXPECT_TRUE(parameter.grad().defined());
  EXPECT_EQ(optimizer.step_count(), 0);
  gradient_state->sync_gradients = true;
  optimizer.step();
  EXPECT_EQ(optimizer.step_count(), 1);
  optimizer.zero_grad();
  EXPECT_EQ(parameter[0].item<double>(), 0.5);
  EXPECT_FALSE(parameter.grad().defined());
}

TEST(AcceleratedOptimizer, PassesClosuresAndGroupsThrough) {
  auto parameter = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD sgd({parameter}, 0.5);
  AcceleratedOptimizer optimizer(sgd, std::make_shared<GradientState>());
  const auto loss = optimizer.step([&] {
    parameter.mutable_grad() = torch::ones({1});
    return torch::tensor(7.0);
  });
  EXPECT_EQ(loss.item<double>(), 7.0);
  EXPECT_EQ(optimizer.param_groups().size(), 1u);
  EXPECT_EQ(&optimizer.optimizer(), &sgd);
}

// A least-squares problem of six samples, and a loss over some of them.
struct Problem {
  at::Tensor x = torch::linspace(-1, 1, 18, at::kDouble).reshape({6, 3}).pow(2);
  at::Tensor y = torch::linspace(1, 2, 6, at::kDouble);
  at::Tensor weight = torch::zeros({3}, at::TensorOptions(at::kDouble).requires_grad(true));

  [[nodiscard]] at::Tensor loss(std::int64_t begin = 0, std::int64_t end = 6) const {
    return (x.slice(0, begin, end).mv(weight) - y.slice(0, begin, end)).pow(2).mean();
  }
};

TEST(AcceleratedOptimizer, StepsByClosureAsEachOptimizerItselfDoes) {
  for (const auto& kind : testing::all_cases()) {
    Problem ours, theirs;
    const auto mine = kind.make(testing::Groups{std::vector{ours.weight}});
    const auto own = kind.make(testing::Groups{std::vector{theirs.weight}});
    AcceleratedOptimizer prepared(*mine, std::make_shared<GradientState>());
    int calls = 0, own_calls = 0;
    const at::NoGradGuard no_grad;  // closures get their gradients all the same
    for (int i = 0; i < 3; ++i) {
      const auto a = prepared.step([&] {
        prepared.zero_grad();
        const auto loss = ours.loss();
        loss.backward();
        return ++calls, loss;
      });
      const auto b = own->step([&] {
        own->zero_grad();
        const auto loss = theirs.loss();
        loss.backward();
        return ++own_calls, loss;
      });
      EXPECT_NEAR(a.item<double>(), b.item<double>(), 1e-12) << kind.name;
    }
    EXPECT_EQ(calls, own_calls) << kind.name;
    EXPECT_LE(testing::distance({ours.weight}, {theirs.weight}), 1e-12) << kind.name;
  }
}

TEST(AcceleratedOptimizer, CallsNoClosureWhileGradientsAccumulate) {
  auto gradient_state = std::make_shared<GradientState>();
  gradient_state->sync_gradients = false;
  torch::optim::LBFGS lbfgs({torch::ones({1}, torch::requires_grad())}, 0.5);
  AcceleratedOptimizer optimizer(lbfgs, gradient_state);
  EXPECT_FALSE(
      optimizer.step([]() -> at::Tensor { throw std::runtime_error("called"); }).defined());
}

TEST(AcceleratedOptimizer, CopiesShareEverythingAndPassGroupsDefaultsAndStateThrough) {
  auto leaf = torch::ones({2}, torch::requires_grad());
  torch::optim::AdamW adamw({leaf}, torch::optim::AdamWOptions(0.25));
  AcceleratedOptimizer optimizer(adamw, std::make_shared<GradientState>());
  AcceleratedOptimizer copy = optimizer;
  copy.add_param_group(std::vector{torch::ones({1}, torch::requires_grad())});
  EXPECT_EQ(optimizer.param_groups().size(), 2u);
  EXPECT_EQ(optimizer.defaults().get_lr(), 0.25);
  EXPECT_EQ(optimizer.core(), copy.core());
  leaf.mutable_grad() = torch::ones({2});
  copy.step();
  EXPECT_EQ(optimizer.state().size(), 1u);
  EXPECT_EQ(optimizer.gradients().size(), 1u);
}

TEST(AcceleratedOptimizer, ReturnsWhatAUsersOwnStepReturns) {
  struct Reporting : torch::optim::SGD {
    using SGD::SGD;
    at::Tensor step(LossClosure) override { return torch::tensor(3.0); }
  };
  Reporting sgd({torch::ones({1}, torch::requires_grad())}, 0.5);
  EXPECT_EQ(AcceleratedOptimizer(sgd, std::make_shared<GradientState>()).step().item<double>(),
            3.0);
}

// What two ranks find by LBFGS on half the samples each is what one finds on all of them, although
// the losses that end its search differ from rank to rank.
TEST(AcceleratedOptimizer, RanksTakeTheSameDecisionsByClosure) {
  const auto options = torch::optim::LBFGSOptions(1).max_iter(8).line_search_fn("strong_wolfe");
  Problem alone;
  torch::optim::LBFGS reference({alone.weight}, options);
  int reference_calls = 0;
  const auto reference_closure = [&] {
    reference.zero_grad();
    const auto loss = alone.loss();
    loss.backward();
    return ++reference_calls, loss;
  };
  for (int i = 0; i < 2; ++i) reference.step(reference_closure);

  testing::run_ranks_shared(2, [&](std::shared_ptr<Communicator> group) {
    Problem mine;
    torch::optim::LBFGS lbfgs({mine.weight}, options);
    AcceleratedOptimizer optimizer(lbfgs, std::make_shared<GradientState>());
    optimizer.share_losses(group);
    int calls = 0;
    const auto closure = [&] {
      optimizer.zero_grad();
      const auto loss = mine.loss(3 * group->rank(), 3 * group->rank() + 3);
      loss.backward();
      group->all_reduce(mine.weight.mutable_grad(), ReduceOp::mean).wait();
      return ++calls, loss;
    };
    for (int i = 0; i < 2; ++i) optimizer.step(closure);
    EXPECT_EQ(calls, reference_calls);
    EXPECT_LE(testing::distance({mine.weight}, {alone.weight}), 1e-9);
  });
}

// --- with a scaler -------------------------------------------------------------------------------

TEST(AcceleratedOptimizer, UnderAScalerStepsUnscaledAndSkipsOverflows) {
  for (const auto& kind : testing::four_cases()) {
    const Scaled scaled;
    auto ours = torch::ones({3}, torch::requires_grad()),
         theirs = torch::ones({3}, torch::requires_grad());
    const auto mine = kind.make(testing::Groups{std::vector{ours}});
    const auto own = kind.make(testing::Groups{std::vector{theirs}});
    auto prepared = scaled.prepare(*mine);
    for (const float bad : {0.0F, INFINITY, NAN, 0.0F}) {
      const auto gradient = torch::tensor({0.5F, -0.25F, bad});
      scaled.backward(ours, gradient);
      prepared.step();
      EXPECT_EQ(prepared.step_was_skipped(), bad != 0.0F) << kind.name;
      prepared.zero_grad();
      if (bad != 0.0F) continue;
      theirs.mutable_grad() = gradient;
      own->step();
    }
    EXPECT_LE(testing::distance({ours}, {theirs}), 1e-6) << kind.name;
    EXPECT_EQ(scaled.scaler->get_scale(), 65536.0 / 4) << kind.name;
    EXPECT_EQ(prepared.step_count(), 2) << kind.name;
  }
}

TEST(AcceleratedOptimizer, DroppedGradientsAreNotTakenForUnscaledOnes) {
  const Scaled scaled;
  auto leaf = torch::zeros({1}, torch::requires_grad());
  torch::optim::SGD sgd({leaf}, 1.0);
  auto optimizer = scaled.prepare(sgd);
  scaled.backward(leaf, torch::ones({1}));
  optimizer.unscale_gradients();  // looked at, and thought better of
  optimizer.zero_grad();
  scaled.backward(leaf, torch::ones({1}));
  optimizer.step();
  EXPECT_EQ(leaf.item<double>(), -1.0);
}

TEST(AcceleratedOptimizer, ClosuresThatRunOnceWorkUnderAScaler) {
  for (const auto& kind : testing::all_cases()) {
    if (kind.name == "LBFGS") continue;
    const Scaled scaled;
    auto leaf = torch::ones({2}, torch::requires_grad());
    const auto optimizer = kind.make(testing::Groups{std::vector{leaf}});
    auto prepared = scaled.prepare(*optimizer);
    for (const float bad : {0.0F, INFINITY}) {
      const auto before = leaf.detach().clone();
      const auto loss = prepared.step([&] {
        prepared.zero_grad();
        scaled.backward(leaf, torch::tensor({1.0F, 1.0F + bad}));
        return torch::tensor(5.0);
      });
      EXPECT_EQ(loss.item<double>(), 5.0) << kind.name;
      EXPECT_EQ(prepared.step_was_skipped(), bad != 0) << kind.name;
      EXPECT_EQ(before.equal(leaf.detach()), bad != 0) << kind.name;
    }
  }
}

struct OwnOptimizer : torch::optim::SGD {
  using SGD::SGD;
};

TEST(AcceleratedOptimizer, BadInputIsASentence) {
  struct Bad {
    std::string name, said;
    std::function<void()> call;
  };
  const Scaled scaled;
  auto leaf = torch::ones({1}, torch::requires_grad());
  torch::optim::LBFGS lbfgs({leaf}, 0.5);
  OwnOptimizer own({leaf}, 0.5);
  torch::optim::SGD sgd({leaf}, 0.5);
  const auto closure = [] { return torch::ones({}); };
  const std::vector<Bad> table = {
      {"LBFGS under a scaler", "LBFGS with a closure cannot use fp16",
       [&] { scaled.prepare(lbfgs).step(closure); }},
      {"an own type under a scaler", "OwnOptimizer with a closure cannot use fp16",
       [&] { scaled.prepare(own).step(closure); }},
      {"unscaled before the closure", "inside the closure",
       [&] {
         scaled.backward(leaf, torch::ones({1}));
         auto optimizer = scaled.prepare(sgd);
         optimizer.unscale_gradients();
         optimizer.step(closure);
       }},
      {"a scaler and no backward", "no loss was scaled", [&] { Scaled().prepare(sgd).step(); }},
      {"fp16 gradients", "is fp16",
       [&] {
         auto half = torch::ones({1}, at::kHalf).set_requires_grad(true);
         torch::optim::SGD optimizer({half}, 0.5);
         scaled.backward(half, torch::ones({1}));
         half.mutable_grad() = torch::ones({1}, at::kHalf);
         scaled.prepare(optimizer).step();
       }},
      {"after a failed micro-batch", "exception ended", [&] {
         auto gradient_state = std::make_shared<GradientState>();
         gradient_state->micro_batch_failed = true;
         AcceleratedOptimizer(sgd, gradient_state).step();
       }}};
  for (const auto& bad : table) {
    try {
      bad.call();
      ADD_FAILURE() << bad.name << " was accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(bad.said), std::string::npos)
          << bad.name << ": " << error.what();
    }
    EXPECT_EQ(leaf.item<double>(), 1.0) << bad.name;
  }
}

TEST(AcceleratedOptimizer, ADisabledScalerIsNoScaler) {
  const Scaled scaled({.enabled = false});
  auto leaf = torch::zeros({1}, torch::requires_grad());
  torch::optim::LBFGS lbfgs({leaf}, torch::optim::LBFGSOptions(1).max_iter(1));
  auto optimizer = scaled.prepare(lbfgs);
  optimizer.step([&] {
    leaf.mutable_grad() = torch::ones({1});
    return torch::ones({});
  });
  EXPECT_EQ(leaf.item<double>(), -1.0);
  EXPECT_FALSE(optimizer.step_was_skipped());
}

}  // namespace
}  // namespace accelerate
