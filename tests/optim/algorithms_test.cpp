// Adafactor, Lion, ScheduleFreeAdamW and Muon as citizens of the library: their state is saved, loaded
// and mapped, schedules set their rates, wrong options and gradients are refused. Their values
// are compared in algorithms_golden_test.cpp and muon_test.cpp.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/algorithms/adafactor.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/muon.h"
#include "accelerate/optim/algorithms/muon_with_aux_adam.h"
#include "accelerate/optim/algorithms/schedule_free_adamw.h"
#include "accelerate/optim/get_scheduler.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/optim/schedules/one_cycle_lr.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using Leaves = std::vector<at::Tensor>;
using testing::message_of;

struct AlgorithmCase {
  const char* name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const Leaves&)> make;
  bool takes_matrices_only = false;
};

template <typename Optimizer, typename Options>
AlgorithmCase algorithm(const char* name, const Options& options) {
  return {name,
          [options](const Leaves& leaves) { return std::make_unique<Optimizer>(leaves, options); },
          std::is_same_v<Optimizer, Muon> || std::is_same_v<Optimizer, MuonWithAuxAdam>};
}

AdafactorOptions fixed_rate(double rate) {
  return AdafactorOptions(rate).scale_parameter(false).relative_step(false);
}

// With every part of the state in use.
std::vector<AlgorithmCase> algorithms() {
  return {
      algorithm<Adafactor>("Adafactor", fixed_rate(0.02).beta1(0.9).weight_decay(0.1)),
      algorithm<Adafactor>("Adafactor", AdafactorOptions().warmup_init(true)),
      algorithm<Lion>("Lion", LionOptions(0.01).weight_decay(0.1)),
      algorithm<ScheduleFreeAdamW>(
          "ScheduleFreeAdamW",
          ScheduleFreeAdamWOptions(0.02).warmup_steps(3).r(0.5).weight_decay(0.1)),
      algorithm<Muon>("Muon", MuonOptions(0.02).adjust_lr_fn("match_rms_adamw")),
      algorithm<MuonWithAuxAdam>("MuonWithAuxAdam", MuonWithAuxAdamOptions(true).weight_decay(0.1)),
      algorithm<MuonWithAuxAdam>("MuonWithAuxAdam",
                                 MuonWithAuxAdamOptions(false).weight_decay(0.1))};
}

bool is_of_deepspeed(const AlgorithmCase& which) {
  return std::string(which.name) == "MuonWithAuxAdam";
}

// Leaves of several shapes, and an optimizer over them that is in train mode.
struct AlgorithmTraining {
  explicit AlgorithmTraining(const AlgorithmCase& which) {
    using Shapes = std::vector<std::vector<std::int64_t>>;
    const Shapes matrices = {{1, 1}, {3, 1}, {4, 5}, {6, 4}}, others = {{}, {3}, {4, 5}, {2, 3, 4}};
    for (const auto& shape : which.takes_matrices_only ? matrices : others) {
      const auto values = torch::sin(torch::arange(c10::multiply_integers(shape)) + 1.0);
      leaves.push_back(values.to(at::kFloat).view(shape).set_requires_grad(true));
    }
    optimizer = which.make(leaves);
    set_mode(OptimizerMode::train);
  }

  void set_mode(OptimizerMode mode) const {
    auto* modal = dynamic_cast<ModalOptimizer*>(optimizer.get());
    if (modal != nullptr) modal->set_mode(mode);
  }

  void step(int index) const {
    for (std::size_t j = 0; j < leaves.size(); ++j) {
      const auto values = torch::cos(torch::arange(leaves[j].numel()) * (index + 1.3) + double(j));
      leaves[j].mutable_grad() = values.to(at::kFloat).view(leaves[j].sizes());
    }
    optimizer->step();
  }

  [[nodiscard]] bool finds_its_rate() const {
    auto* options = dynamic_cast<AdafactorOptions*>(&optimizer->param_groups()[0].options());
    return options != nullptr && options->relative_step();
  }

  [[nodiscard]] Leaves copies() const {
    Leaves all;
    for (const auto& leaf : leaves) all.push_back(leaf.detach().clone());
    return all;
  }

  mutable Leaves leaves;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

void expect_same(const Leaves& found, const Leaves& expected, const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], expected[i])) << what << ", parameter " << i;
}

void copy_into(const Leaves& from, const Leaves& to) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
}

TEST(Algorithms, GoOnFromASavedStateToTheBit) {
  for (const auto& which : algorithms()) {
    for (int cut = 0; cut < 4; ++cut) {
      const AlgorithmTraining whole(which), first(which), second(which);
      for (int i = 0; i < 6; ++i) whole.step(i);
      for (int i = 0; i < cut; ++i) first.step(i);
      const auto state = optimizer_state_dict(*first.optimizer, {});
      EXPECT_EQ(state.at("class").to<std::string>(), which.name);
      load_optimizer_state_dict(*second.optimizer, state, {});
      copy_into(first.copies(), second.leaves);
      for (int i = cut; i < 6; ++i) second.step(i);
      expect_same(second.copies(), whole.copies(),
                  which.name + (" cut after " + std::to_string(cut)));
    }
  }
}

TEST(Algorithms, GoOnFromAnArchiveOfLibTorch) {
  for (const auto& which : algorithms()) {
    const AlgorithmTraining first(which), second(which);
    for (int i = 0; i < 3; ++i) first.step(i);
    std::stringstream bytes;
    torch::save(*first.optimizer, bytes);
    torch::load(*second.optimizer, bytes);
    copy_into(first.copies(), second.leaves);
    for (const auto* training : {&first, &second}) training->step(3);
    expect_same(second.copies(), first.copies(), which.name);
  }
}

TEST(Algorithms, ShowTheirStateUnderPythonsKeys) {
  const auto keys = [](const StateDict& dict) {
    std::set<std::string> found;
    for (const auto& entry : dict.dict()) found.insert(entry.first);
    return found;
  };
  const std::map<std::string, std::set<std::string>> expected = {
      {"Adafactor", {"step", "exp_avg", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "RMS"}},
      {"Lion", {"step", "state1"}},
      {"ScheduleFreeAdamW", {"z", "exp_avg_sq"}},
      {"Muon", {"momentum_buffer"}},
      {"MuonWithAuxAdam", {"step", "momentum_buffer", "exp_avg", "exp_avg_sq"}}};
  for (const auto& which : algorithms()) {
    const AlgorithmTraining training(which);
    training.step(0);
    const auto state = optimizer_state_dict(*training.optimizer, {});
    EXPECT_EQ(keys(state.at("state").at("param_groups.0.2")), expected.at(which.name));
  }
  const AlgorithmTraining factored(algorithms()[0]);
  factored.step(0);
  const auto state = optimizer_state_dict(*factored.optimizer, {}).at("state");
  EXPECT_EQ(state.at("param_groups.0.3").at("exp_avg_sq_row").to<at::Tensor>().sizes(),
            at::IntArrayRef({2, 3}));
  EXPECT_EQ(state.at("param_groups.0.3").at("exp_avg_sq_col").to<at::Tensor>().sizes(),
            at::IntArrayRef({2, 4}));
  EXPECT_TRUE(state.at("param_groups.0.3").at("exp_avg_sq").is_null());
  EXPECT_TRUE(state.at("param_groups.0.1").at("exp_avg_sq_row").is_null());
}

TEST(Algorithms, TheirTensorsAreMapped) {
  // Four parameters; of Adafactor's two are factored, each has an RMS, and the first an average.
  const std::vector<int> tensors = {4 + 2 + 4 + 4, 2 + 4 + 4, 4, 8, 4, 4, 8};
  const auto all = algorithms();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const AlgorithmTraining training(all[i]);
    training.step(0);
    int visited = 0;
    map_state_tensors(*training.optimizer, [&](const at::Tensor& tensor) {
      ++visited;
      return tensor;
    });
    EXPECT_EQ(visited, tensors[i]) << all[i].name;
  }
}

TEST(Algorithms, RefuseAStateThatDoesNotFit) {
  struct Damage {
    std::size_t which;
    const char *parameter, *key;
    StateDict value;
    const char* says;
  };
  const Damage damages[] = {
      {0, "param_groups.0.2", "exp_avg_sq_row", torch::zeros({5}), "the parameter asks for [4]"},
      {0, "param_groups.0.2", "exp_avg_sq_col", StateDict(), "must be a tensor"},
      {0, "param_groups.0.1", "exp_avg_sq", StateDict(), "must be a tensor"},
      {0, "param_groups.0.1", "exp_avg", torch::zeros({3}, at::kLong), "is of Long"},
      {0, "param_groups.0.1", "step", -1, "allowed is 0 or more"},
      {2, "param_groups.0.1", "state1", torch::zeros({4}), "'state1'"},
      {2, "param_groups.0.1", "state1", StateDict(), "must be a tensor"},
      {3, "param_groups.0.3", "z", StateDict(), "must be a tensor"},
      {4, "param_groups.0.3", "momentum_buffer", StateDict(), "must be a tensor"},
      {4, "param_groups.0.3", "momentum_buffer", torch::zeros({4, 6}), "'momentum_buffer'"},
  };
  for (const auto& damage : damages) {
    const AlgorithmTraining training(algorithms()[damage.which]);
    training.step(0);
    StateDict state = optimizer_state_dict(*training.optimizer, {});
    state["state"][damage.parameter][damage.key] = damage.value;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, damage.says, message_of<CheckpointError>([&] {
                          load_optimizer_state_dict(*training.optimizer, state, {});
                        }));
  }
}

TEST(Algorithms, FollowSchedules) {
  for (const auto& which : algorithms()) {
    const AlgorithmTraining training(which);
    auto& options = training.optimizer->param_groups()[0].options();
    const auto make = [&] {
      return get_scheduler("linear", *training.optimizer,
                           {.num_warmup_steps = 0, .num_training_steps = 10});
    };
    if (training.finds_its_rate()) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "relative_step(false)",
                          message_of<UsageError>([&] { (void)make(); }));
      continue;
    }
    const double rate = options.get_lr();
    const auto schedule = make();
    training.step(0);
    const auto before = training.copies();
    for (int i = 0; i < 10; ++i) schedule->step();
    EXPECT_EQ(options.get_lr(), 0.0) << which.name << " began at " << rate;
    if (std::string(which.name) == "Lion") {
      training.step(1);
      expect_same(training.copies(), before, "a step of rate 0");
    }
  }
}

TEST(Algorithms, HaveAMomentumThatOneCycleLRCycles) {
  const auto momentum_after = [](const AlgorithmCase& which) {
    const AlgorithmTraining training(which);
    const OneCycleLR schedule(*training.optimizer, {.max_lr = 0.1, .total_steps = 10});
    return schedule.get_last_momentum().at(0);
  };
  for (const auto& which : algorithms()) {
    if (std::string(which.name) == "Adafactor") continue;
    EXPECT_EQ(momentum_after(which), 0.95) << which.name;
  }
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cycle_momentum = false",
                      message_of<ConfigError>([&] { momentum_after(algorithms()[0]); }));
}

TEST(Algorithms, PassOverParametersWithoutAGradient) {
  for (const auto& which : algorithms()) {
    if (is_of_deepspeed(which)) continue;  // Takes zeros for it.
    const AlgorithmTraining training(which);
    training.step(0);
    const auto before = training.copies();
    for (auto& leaf : training.leaves) leaf.mutable_grad() = at::Tensor();
    training.optimizer->step();
    expect_same(training.copies(), before, which.name);
    const AlgorithmTraining untouched(which);
    untouched.optimizer->step();
    EXPECT_TRUE(untouched.optimizer->state().empty()) << which.name;
  }
}

TEST(Algorithms, StayFiniteOnGradientsOfZeros) {
  for (const auto& which : algorithms()) {
    const AlgorithmTraining training(which);
    for (auto& leaf : training.leaves) leaf.mutable_grad() = torch::zeros_like(leaf.detach());
    for (int i = 0; i < 3; ++i) training.optimizer->step();
    for (const auto& leaf : training.leaves)
      EXPECT_TRUE(leaf.detach().isfinite().all().item<bool>()) << which.name;
  }
  const auto weight = torch::ones({4}, torch::requires_grad());
  Lion lion({weight}, LionOptions(0.1));
  weight.mutable_grad() = torch::zeros({4});
  lion.step();
  EXPECT_TRUE(torch::equal(weight.detach(), torch::ones({4}))) << "the sign of 0 is 0";
}

TEST(Algorithms, EvaluateAClosureOnceWithGradients) {
  for (const auto& which : algorithms()) {
    const AlgorithmTraining training(which);
    int calls = 0;
    const torch::NoGradGuard no_grad;
    const auto loss = training.optimizer->step([&] {
      ++calls;
      training.optimizer->zero_grad();
      auto sum = training.leaves[2].square().sum();
      sum.backward();
      return sum;
    });
    EXPECT_EQ(calls, 1) << which.name;
    EXPECT_TRUE(loss.defined()) << which.name;
    EXPECT_TRUE(training.leaves[2].grad().defined()) << which.name;
  }
}

TEST(Algorithms, LeaveGradientsAsTheyAre) {
  for (const auto& which : algorithms()) {
    if (is_of_deepspeed(which)) continue;  // Makes updates of them.
    const AlgorithmTraining training(which);
    training.step(0);
    const auto gradient = training.leaves[2].grad().clone();
    training.optimizer->step();
    EXPECT_TRUE(torch::equal(training.leaves[2].grad(), gradient)) << which.name;
  }
}

TEST(Algorithms, RefuseSparseGradients) {
  for (const auto& which : algorithms()) {
    const AlgorithmTraining training(which);
    training.leaves[2].mutable_grad() = torch::ones({4, 5}).to_sparse();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, std::string(which.name) + " takes dense gradients",
                        message_of<UsageError>([&] { training.optimizer->step(); }));
  }
}

template <typename Optimizer, typename Options>
std::string refusal_of(const Options& options) {
  return message_of<ConfigError>([&] { Optimizer({torch::ones({2})}, options); });
}

void expect_option_named(const std::string& message, const std::string& option) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, option, message);
}

TEST(Algorithms, RefuseOptionsOutOfRange) {
  using Free = ScheduleFreeAdamWOptions;
  expect_option_named(refusal_of<Lion>(LionOptions(-0.1)), "lr of Lion is -0.1");
  expect_option_named(refusal_of<Lion>(LionOptions().betas({0.9, 1.0})), "betas[1] of Lion is 1");
  expect_option_named(refusal_of<Lion>(LionOptions().weight_decay(-1)), "weight_decay of Lion");
  expect_option_named(refusal_of<ScheduleFreeAdamW>(Free(NAN)), "lr of ScheduleFreeAdamW is nan");
  expect_option_named(refusal_of<ScheduleFreeAdamW>(Free().betas({0.0, 0.9})), "betas[0]");
  expect_option_named(refusal_of<ScheduleFreeAdamW>(Free().eps(-1)), "eps");
  expect_option_named(refusal_of<ScheduleFreeAdamW>(Free().warmup_steps(-1)), "warmup_steps");
  expect_option_named(refusal_of<Adafactor>(AdafactorOptions(0.1)), "relative_step(false)");
  expect_option_named(refusal_of<Adafactor>(AdafactorOptions().relative_step(false)), "neither");
  expect_option_named(refusal_of<Adafactor>(fixed_rate(0.1).warmup_init(true)), "warmup_init");
  expect_option_named(refusal_of<Adafactor>(fixed_rate(0.1).beta1(1.0)), "beta1");
  expect_option_named(refusal_of<Adafactor>(fixed_rate(0.1).clip_threshold(0)), "clip_threshold");
}

TEST(Algorithms, KeepTheOptionsOfEachGroup) {
  const auto first = torch::ones({2}, torch::requires_grad());
  const auto second = torch::ones({2}, torch::requires_grad());
  const auto third = torch::ones({2}, torch::requires_grad());
  const auto group = [](const at::Tensor& leaf, const LionOptions& options) {
    return torch::optim::OptimizerParamGroup(Leaves{leaf}, std::make_unique<LionOptions>(options));
  };
  Lion lion({group(first, LionOptions(0.5)), torch::optim::OptimizerParamGroup(Leaves{second})},
            LionOptions(0.25));
  AcceleratedOptimizer handle(lion, std::make_shared<GradientState>());
  handle.add_param_group(group(third, LionOptions(0.125)));
  for (const auto& leaf : {first, second, third}) leaf.mutable_grad() = torch::ones({2});
  handle.step();
  EXPECT_EQ(first[0].item<double>(), 0.5);
  EXPECT_EQ(second[0].item<double>(), 0.75);
  EXPECT_EQ(third[0].item<double>(), 0.875);
  lion.add_param_group(group(torch::ones({1}), LionOptions(0.0625)));
  EXPECT_EQ(lion.param_groups()[3].options().get_lr(), 0.0625);
}

TEST(Algorithms, RefuseOptionsOfAnotherOptimizer) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(Leaves{torch::ones({2})}, std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "SGDOptions",
                      message_of<UsageError>([&] { Lion(groups, LionOptions()); }));
}

}  // namespace
}  // namespace accelerate
