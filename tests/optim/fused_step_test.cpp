// Fused steps against torch::optim's own, on the same gradients. Tolerances: fp64 1e-13, fp32 4e-6
// after ten steps and an eighth of it (4 ulp) after one, relative to max(1, |value|): the kernels
// contract products and sums and divide where torch::optim multiplies, which moves the last bits.
// What falls back is equal bit for bit.
#include "accelerate/optim/fused_step.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <sstream>

#include "accelerate/optim/optimizer_state.h"
#include "accelerate/tensor/compat/fused_optimizers.h"
#include "tests/optim/optimizers.h"

namespace accelerate {

std::vector<at::Tensor> testing::state_tensors(Optimizer& optimizer) {
  std::vector<at::Tensor> found;
  map_state_tensors(optimizer, [](const at::Tensor& tensor) { return tensor; });  // knows them all
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& leaf : group.params()) {
      const auto state = optimizer.state().find(leaf.unsafeGetTensorImpl());
      if (state == optimizer.state().end()) continue;
      std::ostringstream bytes;
      torch::serialize::OutputArchive archive;
      state->second->serialize(archive);
      torch::serialize::InputArchive reader;
      archive.save_to(bytes);
      std::istringstream source(bytes.str());
      reader.load_from(source);
      for (const auto& key : reader.keys()) {
        c10::IValue value;
        reader.read(key, value);
        if (value.isTensor() && value.toTensor().defined()) found.push_back(value.toTensor());
        if (value.isInt()) found.push_back(torch::tensor(value.toInt()));
      }
    }
  }
  return found;
}

namespace {

using namespace testing;
using detail::FusedStep;

constexpr double kFp64 = 1e-13, kFp32 = 4e-6;

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? kFp64 : kFp32;
}

// Empty, scalar, odd, big, and dense in other orders than row by row.
std::vector<at::Tensor> shapes(at::ScalarType dtype) {
  const auto options = at::TensorOptions(dtype);
  return {torch::randn({}, options),
          torch::randn({1}, options),
          torch::zeros({0, 3}, options),
          torch::randn({17}, options),
          torch::randn({64, 33}, options),
          torch::randn({6, 4}, options).t(),
          torch::randn({2, 3, 4, 5}, options).contiguous(at::MemoryFormat::ChannelsLast)};
}

// An optimizer stepped by kernels and its twin that steps by itself.
struct Twins {
  Twins(const OptimizerCase& kind, const std::vector<at::Tensor>& tensors)
      : ours(leaves_of(tensors)),
        theirs(leaves_of(tensors)),
        fused_optimizer(kind.make(Groups{ours})),
        own_optimizer(kind.make(Groups{theirs})),
        fused(FusedStep::of(*fused_optimizer)) {}

  void step() {
    fused->run(*fused_optimizer);
    own_optimizer->step();
  }

  void steps(int n) {
    for (int i = 0; i < n; ++i) {
      set_gradients(ours, theirs);
      step();
    }
  }

  void expect_within(double tolerance, const std::string& what) {
    EXPECT_LE(distance(ours, theirs), tolerance) << what;
    const auto a = state_tensors(*fused_optimizer), b = state_tensors(*own_optimizer);
    ASSERT_EQ(a.size(), b.size()) << what;
    EXPECT_LE(distance(a, b), tolerance) << what << ", state";
  }

  std::vector<at::Tensor> ours, theirs;
  std::unique_ptr<Optimizer> fused_optimizer, own_optimizer;
  std::unique_ptr<FusedStep> fused;
};

TEST(FusedStep, EqualsTheOwnStepForEverySetting) {
  const auto cases = fused_cases();
  EXPECT_EQ(cases.size(), 10u + 24u + 24u + 8u);
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    for (const auto& kind : cases) {
      torch::manual_seed(7);
      Twins twins(kind, shapes(dtype));
      twins.steps(1);
      twins.expect_within(tolerance_of(dtype) / 8, kind.name + ", after one step");
      twins.steps(9);
      twins.expect_within(tolerance_of(dtype), kind.name + ", after ten steps");
    }
  }
}

TEST(FusedStep, RunsOneKernelAndAllocatesNothingOnceTheStateExists) {
  const std::map<std::string, std::string> kernels = {{"SGD", "aten::_fused_sgd_"},
                                                      {"Adam", "aten::_fused_adam_"},
                                                      {"AdamW", "aten::_fused_adamw_"},
                                                      {"Adagrad", "aten::_fused_adagrad_"}};
  for (const auto& kind : four_cases()) {
    Twins twins(kind, {torch::randn({8}), torch::randn({3, 5}), torch::randn({2})});
    twins.steps(2);
    const Operations operations;
    twins.fused->run(*twins.fused_optimizer);
    const auto seen = Operations::seen();
    EXPECT_EQ(seen.count(kernels.at(kind.name)), 1u) << kind.name;
    for (const auto& name : seen) {
      EXPECT_TRUE(name == kernels.at(kind.name) || name == "aten::fill_" || name == "aten::item" ||
                  name == "aten::_local_scalar_dense")
          << kind.name << ": " << name;
    }
  }
}

TEST(FusedStep, AlternatesWithTheOwnStep) {
  for (const auto& kind : four_cases()) {
    torch::manual_seed(8);
    Twins twins(kind, shapes(at::kDouble));
    for (int i = 0; i < 9; ++i) {
      set_gradients(twins.ours, twins.theirs);
      if (i % 3 == 1) {
        twins.fused_optimizer->step();
        twins.own_optimizer->step();
      } else {
        twins.step();
      }
    }
    twins.expect_within(kFp64, kind.name);
  }
}

TEST(FusedStep, TakesUpEveryChangeBetweenSteps) {
  for (const auto& kind : four_cases()) {
    torch::manual_seed(9);
    Twins twins(kind, shapes(at::kDouble));
    twins.steps(2);
    for (auto* optimizer : {twins.fused_optimizer.get(), twins.own_optimizer.get()}) {
      optimizer->param_groups()[0].options().set_lr(0.3);
    }
    twins.steps(2);
    twins.ours[4].set_requires_grad(false).mutable_grad() = at::Tensor();  // frozen
    twins.theirs[4].set_requires_grad(false).mutable_grad() = at::Tensor();
    twins.step();
    twins.ours[4].set_requires_grad(true);
    twins.theirs[4].set_requires_grad(true);
    twins.steps(3);  // now its step number is behind the others'
    twins.expect_within(kFp64, kind.name);
  }
}

TEST(FusedStep, KeepsGroupsOfDifferentSettingsApart) {
  using namespace torch::optim;
  torch::manual_seed(10);
  Twins twins(case_of<AdamW>("AdamW", AdamWOptions(0.02)), {torch::randn({5}, at::kDouble)});
  const auto late = torch::randn({7}, at::kDouble);
  twins.steps(2);
  auto ours = leaves_of({late}), theirs = leaves_of({late});
  twins.fused_optimizer->add_param_group(OptimizerParamGroup(
      ours, std::make_unique<AdamWOptions>(AdamWOptions(0.5).weight_decay(0.3).amsgrad(true))));
  twins.own_optimizer->add_param_group(OptimizerParamGroup(
      theirs, std::make_unique<AdamWOptions>(AdamWOptions(0.5).weight_decay(0.3).amsgrad(true))));
  twins.ours.push_back(ours[0]);
  twins.theirs.push_back(theirs[0]);
  twins.steps(4);
  twins.expect_within(kFp64, "two groups");
}

TEST(FusedStep, ContinuesFromSavedStateAndSavesItsOwn) {
  for (const auto& kind : four_cases()) {
    torch::manual_seed(11);
    Twins twins(kind, {torch::randn({5}, at::kDouble), torch::randn({3, 2}, at::kDouble)});
    twins.steps(3);
    std::stringstream bytes;
    torch::save(*twins.fused_optimizer, bytes);
    Twins resumed(kind, twins.ours);
    torch::load(*resumed.fused_optimizer, bytes);
    resumed.theirs = twins.theirs;
    resumed.own_optimizer = std::move(twins.own_optimizer);
    resumed.steps(3);
    resumed.expect_within(kFp64, kind.name);
  }
}

TEST(FusedStep, MixedDtypesStepInOneOptimizer) {
  for (const auto& kind : four_cases()) {
    torch::manual_seed(12);
    const auto values = torch::randn({9}, at::kDouble);
    Twins twins(kind, {values, values.to(at::kFloat), values.to(at::kBFloat16)});
    twins.steps(4);
    twins.expect_within(kFp32, kind.name);
    EXPECT_TRUE(twins.ours[2].equal(twins.theirs[2])) << kind.name << ": bf16 is left to torch";
  }
}

// Parameters whose gradients no kernel takes, beside one that a kernel takes.
struct Fallback {
  std::string name;
  std::function<at::Tensor()> parameter;
  std::function<at::Tensor(const at::Tensor&)> gradient;
  std::set<std::string> refused_by = {};  // torch::optim itself throws
};

std::vector<Fallback> fallbacks() {
  const auto like = [](const at::Tensor& leaf) { return torch::randn_like(leaf); };
  const auto of = [](at::ScalarType dtype) {
    return [dtype] { return torch::randn({4, 3}).to(dtype); };
  };
  const auto sparse = [](const at::Tensor&) {
    return torch::sparse_coo_tensor(torch::tensor({{0, 2, 2}}), torch::randn({3, 3}), {4, 3})
        .coalesce();
  };
  return {
      {"bf16", of(at::kBFloat16), like},
      {"fp16", of(at::kHalf), like},
      {"complex", of(at::kComplexDouble), like},
      {"sparse", of(at::kFloat), sparse, {"Adam", "AdamW"}},
      {"transposed", of(at::kFloat), [](const at::Tensor&) { return torch::randn({3, 4}).t(); }},
      {"expanded", of(at::kFloat),
       [](const at::Tensor&) { return torch::randn({4, 1}).expand({4, 3}); }},
      {"strided parameter", [] { return torch::randn({4, 6}).slice(1, 0, 6, 2); }, like}};
}

TEST(FusedStep, LeavesToTheOwnStepWhatNoKernelTakesAndOnlyThat) {
  int compared = 0;
  for (const auto& kind : four_cases(/*plain=*/true)) {
    for (const auto& fallback : fallbacks()) {
      if (fallback.refused_by.contains(kind.name)) continue;
      torch::manual_seed(13);
      auto values = fallback.parameter();
      Twins twins(kind, {torch::randn({50})});
      auto ours = values.detach().set_requires_grad(true);
      auto theirs = values.detach().clone(at::MemoryFormat::Preserve).set_requires_grad(true);
      twins.fused_optimizer = kind.make(Groups{{std::vector{twins.ours[0], ours}}});
      twins.own_optimizer = kind.make(Groups{{std::vector{twins.theirs[0], theirs}}});
      for (int i = 0; i < 3; ++i) {
        set_gradients(twins.ours, twins.theirs);
        ours.mutable_grad() = fallback.gradient(ours.detach());
        theirs.mutable_grad() = ours.grad().clone();
        if (i == 2) {
          const Operations operations;
          twins.fused->run(*twins.fused_optimizer);
          EXPECT_TRUE(std::ranges::any_of(
              Operations::seen(),
              [](const auto& name) { return name.starts_with("aten::_fused_"); }))
              << kind.name << ", beside " << fallback.name;
          twins.own_optimizer->step();
        } else {
          twins.step();
        }
      }
      const auto label = kind.name + ", " + fallback.name;
      EXPECT_TRUE(at::equal(ours.detach(), theirs.detach())) << label;
      EXPECT_LE(distance(twins.ours, twins.theirs), kFp32) << label;
      EXPECT_TRUE(twins.ours[0].grad().defined()) << label << ": gradients stay";
      ++compared;
    }
  }
  EXPECT_EQ(compared, 4 * 7 - 2);
}

// Steps that add 1 to every parameter, whatever the gradients.
struct Stubborn : torch::optim::Adam {
  using Adam::Adam;
  at::Tensor step(LossClosure) override {
    const at::NoGradGuard no_grad;
    for (auto& leaf : param_groups()[0].params()) leaf.add_(1);
    return {};
  }
};

TEST(FusedStep, IsOnlyForExactlyTheFourTypes) {
  const auto leaves = leaves_of({torch::ones({2})});
  for (const auto& kind : four_cases()) {
    EXPECT_NE(FusedStep::of(*kind.make(Groups{leaves})), nullptr) << kind.name;
  }
  EXPECT_EQ(FusedStep::of(Stubborn(leaves)), nullptr);
  EXPECT_EQ(FusedStep::of(torch::optim::RMSprop(leaves)), nullptr);
  EXPECT_EQ(FusedStep::of(torch::optim::LBFGS(leaves)), nullptr);
}

TEST(FusedStep, MovesVersionCountersAsTheOwnStepDoes) {
  for (const auto& kind : four_cases()) {
    Twins twins(kind, {torch::randn({4})});
    twins.steps(3);
    EXPECT_EQ(twins.ours[0]._version() > 0, twins.theirs[0]._version() > 0) << kind.name;
  }
}

TEST(FusedStep, HoldsNoGradientAfterwards) {
  for (const auto& kind : four_cases()) {
    Twins twins(kind, {torch::randn({4})});
    twins.steps(2);
    EXPECT_EQ(twins.ours[0].grad().use_count(), 1u) << kind.name;
  }
}

TEST(FusedStep, ARefusalOfTheOwnStepComesThroughAndTheGradientsStay) {
  auto dense = torch::ones({2}, torch::requires_grad()),
       sparse = torch::ones({4, 3}, torch::requires_grad());
  torch::optim::Adam adam({dense, sparse}, 0.1);
  dense.mutable_grad() = torch::ones({2});
  sparse.mutable_grad() =
      torch::sparse_coo_tensor(torch::tensor({{0}}), torch::ones({1, 3}), {4, 3});
  EXPECT_THROW(FusedStep::of(adam)->run(adam), c10::Error);
  EXPECT_TRUE(dense.grad().defined());
  EXPECT_TRUE(sparse.grad().is_sparse());
}

// The kernels count in fp32, which would stay at 2^24 for ever.
TEST(FusedStep, LeavesStepsBeyondFp32ToTheOwnStep) {
  Twins twins(four_cases()[3], {torch::randn({4}, at::kDouble)});
  for (auto* optimizer : {twins.fused_optimizer.get(), twins.own_optimizer.get()}) {
    for (auto& [leaf, state] : optimizer->state()) {
      static_cast<torch::optim::AdagradParamState&>(*state).step(compat::kLastFusedStep - 1);
    }
  }
  twins.steps(3);
  twins.expect_within(kFp64, "around 2^24");
  EXPECT_EQ(state_tensors(*twins.fused_optimizer)[0].item<std::int64_t>(),
            compat::kLastFusedStep + 2);
}

// torch::optim's Adagrad makes state in its constructor alone and fails at what is added later.
TEST(FusedStep, GivesStateToGroupsThatWereAddedToAdagrad) {
  using namespace torch::optim;
  const auto options = AdagradOptions(0.1).initial_accumulator_value(0.5);
  const auto late = leaves_of({torch::ones({3}), torch::ones({3})});
  Adagrad adagrad(leaves_of({torch::ones({3})}), options), reference({late[1]}, options);
  adagrad.add_param_group(
      OptimizerParamGroup(std::vector{late[0]}, std::make_unique<AdagradOptions>(options)));
  for (const auto& leaf : late) leaf.mutable_grad() = torch::full({3}, 2.0);
  for (int i = 0; i < 3; ++i) {
    FusedStep::of(adagrad)->run(adagrad);
    reference.step();
  }
  EXPECT_LE(distance({late[0]}, {late[1]}), kFp32);
}

TEST(FusedStep, OddStateIsLeftToTheOwnStep) {
  using namespace torch::optim;
  const auto leaves = leaves_of({torch::ones({3})});
  Adam adam(std::vector{leaves[0]}, AdamOptions(0.1));
  const auto fused = FusedStep::of(adam);
  leaves[0].mutable_grad() = torch::ones({3});
  fused->run(adam);
  static_cast<AdamOptions&>(adam.param_groups()[0].options()).amsgrad(true);  // has no maximum yet
  EXPECT_THROW(fused->run(adam), c10::Error) << "as torch::optim does";
}

TEST(FusedStep, NanAndInfinityTravelAsInTheOwnStep) {
  for (const auto& kind : four_cases()) {
    for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      torch::manual_seed(14);
      Twins twins(kind, {torch::randn({21}, at::kDouble)});
      twins.steps(1);
      set_gradients(twins.ours, twins.theirs);
      for (auto* leaf : {&twins.ours[0], &twins.theirs[0]}) leaf->mutable_grad()[20] = value;
      twins.step();
      EXPECT_LE(distance(twins.ours, twins.theirs), kFp64) << kind.name << ", " << value;
    }
  }
}

}  // namespace
}  // namespace accelerate
