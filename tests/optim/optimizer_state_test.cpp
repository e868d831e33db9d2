#include "accelerate/optim/optimizer_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

using torch::optim::Optimizer;

// A small net with its optimizer, and the names of its parameters.
struct StateTraining {
  using Make = std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor>)>;

  explicit StateTraining(const Make& make) {
    torch::NoGradGuard no_grad;
    double value = 0.1;
    for (auto& item : net->named_parameters()) {
      const auto values = torch::sin(torch::arange(item.value().numel()) + (value += 0.3));
      item.value().copy_(values.view_as(item.value()));
      names[item.value().unsafeGetTensorImpl()] = item.key();
    }
    optimizer = make(net->parameters());
  }

  void step(int index) {
    const auto x = torch::cos(torch::arange(12, at::kFloat) * (index + 1)).view({4, 3});
    optimizer->step([&] {
      optimizer->zero_grad();
      auto loss = net->forward(x).square().mean();
      loss.backward();
      return loss;
    });
  }

  [[nodiscard]] std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> copies;
    for (const auto& parameter : net->parameters()) copies.push_back(parameter.detach().clone());
    return copies;
  }

  torch::nn::Sequential net{torch::nn::Linear(3, 5), torch::nn::Tanh(), torch::nn::Linear(5, 2)};
  std::unique_ptr<Optimizer> optimizer;
  ParameterNames names;
};

template <typename O, typename Options>
StateTraining::Make maker(Options options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<O>(std::move(parameters), options);
  };
}

struct Kind {
  const char* name;
  StateTraining::Make make;
};

std::vector<Kind> kinds() {
  using namespace torch::optim;
  return {
      {"SGD", maker<SGD>(SGDOptions(0.1))},
      {"SGD", maker<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"Adam", maker<Adam>(AdamOptions(0.01).amsgrad(true))},
      {"AdamW", maker<AdamW>(AdamWOptions(0.01).betas({0.8, 0.95}))},
      {"Adagrad", maker<Adagrad>(AdagradOptions(0.1).lr_decay(0.1))},
      {"RMSprop", maker<RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true))},
      {"LBFGS", maker<LBFGS>(LBFGSOptions(0.5).max_iter(3).history_size(4))},
      {"LBFGS", maker<LBFGS>(LBFGSOptions(1).max_iter(3).line_search_fn("strong_wolfe"))},
  };
}

// Cut anywhere, the rest of a training is what it would have been, to the bit.
TEST(OptimizerState, LetsAnotherOptimizerGoOn) {
  for (const auto& [name, make] : kinds()) {
    for (int cut = 0; cut < 4; ++cut) {
      StateTraining whole(make), first(make), second(make);
      for (int i = 0; i < 5; ++i) whole.step(i);
      for (int i = 0; i < cut; ++i) first.step(i);
      for (auto& group : second.optimizer->param_groups()) group.options().set_lr(7.0);
      const auto state = optimizer_state_dict(*first.optimizer, first.names);
      EXPECT_EQ(state.at("class").to<std::string>(), name);
      load_optimizer_state_dict(*second.optimizer, state, second.names);
      {
        torch::NoGradGuard no_grad;
        const auto weights = first.weights();
        for (std::size_t i = 0; i < weights.size(); ++i)
          second.net->parameters()[i].copy_(weights[i]);
      }
      for (int i = cut; i < 5; ++i) second.step(i);
      const auto expected = whole.weights(), found = second.weights();
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(torch::equal(expected[i], found[i])) << name << " cut after " << cut;
    }
  }
}

TEST(OptimizerState, UsesPythonsKeysAndParametersByName) {
  StateTraining training(maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01)));
  training.step(0);
  const auto state = optimizer_state_dict(*training.optimizer, training.names);
  EXPECT_EQ(state.at("state").at("0.weight").at("step").to<int>(), 1);
  EXPECT_EQ(state.at("state").at("2.bias").at("exp_avg").to<at::Tensor>().sizes(),
            at::IntArrayRef({2}));
  EXPECT_TRUE(state.at("state").at("2.bias").at("max_exp_avg_sq").is_null());
  const auto& group = state.at("param_groups").list().at(0);
  EXPECT_EQ(group.at("lr").to<double>(), 0.01);
  EXPECT_EQ(group.at("betas").list().at(1).to<double>(), 0.999);
  EXPECT_EQ(group.at("params").list().at(3).to<std::string>(), "2.bias");
}

TEST(OptimizerState, FindsParametersInAnotherOrder) {
  using torch::optim::SGD;
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
  StateTraining first(maker<SGD>(options));
  first.step(0);
  StateTraining second([&](std::vector<at::Tensor> parameters) {
    std::reverse(parameters.begin(), parameters.end());
    return std::make_unique<SGD>(std::move(parameters), options);
  });
  load_optimizer_state_dict(*second.optimizer, optimizer_state_dict(*first.optimizer, first.names),
                            second.names);
  const auto state = optimizer_state_dict(*second.optimizer, second.names);
  EXPECT_TRUE(torch::equal(state.at("state").at("0.weight").at("momentum_buffer").to<at::Tensor>(),
                           first.net->parameters()[0].grad()));
}

struct Misfit {
  const char* what;
  std::function<void(StateDict&)> change;
  const char* says;
};

TEST(OptimizerState, WhatDoesNotFitIsACheckpointErrorAndChangesNothing) {
  const auto replace = [](const char* field, StateDict value) {
    return [field, value](StateDict& state) { state["state"]["0.weight"][field] = value; };
  };
  const Misfit cases[] = {
      {"class", [](StateDict& state) { state["class"] = "SGD"; }, "has the state of SGD"},
      {"groups", [](StateDict& state) { state["param_groups"] = StateDict::List(); },
       "has 0 parameter groups, this one 1"},
      {"parameters",
       [](StateDict& state) {
         StateDict group = state.at("param_groups").list()[0];
         group["params"] = StateDict::List{"0.weight", "head.weight"};
         state["param_groups"] = StateDict::List{group};
       },
       "only saved: head.weight; only here: 0.bias, 2.bias, 2.weight"},
      {"shape", replace("exp_avg", torch::zeros({3, 5})), "'exp_avg' of parameter '0.weight'"},
      {"kind", replace("exp_avg", "text"), "the text 'text'"},
      {"step", replace("step", 1.5), "'step'"},
      {"lacking", [](StateDict& state) { state["state"]["0.weight"] = StateDict::Dict(); },
       "no 'step'"},
      {"a number of betas",
       [](StateDict& state) {
         StateDict group = state.at("param_groups").list()[0];
         group["betas"] = StateDict::List{0.9};
         state["param_groups"] = StateDict::List{group};
       },
       "1 numbers, not 2"},
      {"a parameter that is not here",
       [](StateDict& state) { state["state"]["head.weight"] = state["state"]["0.weight"]; },
       "a state of parameter 'head.weight', which no group of the optimizer has"},
      {"amsgrad without its maxima",
       [](StateDict& state) {
         StateDict group = state.at("param_groups").list()[0];
         group["amsgrad"] = true;
         state["param_groups"] = StateDict::List{group};
       },
       "'max_exp_avg_sq' of parameter '0.weight' is nothing"},
      {"no moment", replace("exp_avg_sq", StateDict()),
       "'exp_avg_sq' of parameter '0.weight' is nothing"},
      {"a moment of integers", replace("exp_avg", torch::zeros({5, 3}, at::kLong)),
       "'exp_avg' of parameter '0.weight' is of Long; allowed are floating-point"},
      {"a negative step", replace("step", -1),
       "'step' of parameter '0.weight' is -1; allowed is 0"},
  };
  const auto make = maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01));
  for (const auto& [what, change, says] : cases) {
    StateTraining saved(make), training(make);
    saved.step(0);
    training.step(1);
    const auto before = training.optimizer->state().size();
    const auto moment = optimizer_state_dict(*training.optimizer, training.names)
                            .at("state")
                            .at("0.weight")
                            .at("exp_avg")
                            .to<at::Tensor>()
                            .clone();
    StateDict state = optimizer_state_dict(*saved.optimizer, saved.names);
    change(state);
    try {
      load_optimizer_state_dict(*training.optimizer, state, training.names);
      ADD_FAILURE() << what;
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << what;
    }
    EXPECT_EQ(training.optimizer->state().size(), before);
    EXPECT_TRUE(torch::equal(moment, optimizer_state_dict(*training.optimizer, training.names)
                                         .at("state")
                                         .at("0.weight")
                                         .at("exp_avg")
                                         .to<at::Tensor>()))
        << what;
  }
}

TEST(OptimizerState, OnlyLoadingChangesWhatWasCheckedBefore) {
  const auto weight = torch::ones({2}, torch::requires_grad());
  torch::optim::Adam saved({weight}, 0.5), loaded({weight}, 0.1);
  weight.sum().backward();
  saved.step();
  const auto checked = check_optimizer_state_dict(loaded, optimizer_state_dict(saved, {}), {});
  saved.step();
  EXPECT_TRUE(loaded.state().empty());
  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.1);
  EXPECT_FALSE(checked.may_refuse);
  checked.load();
  const auto state = optimizer_state_dict(loaded, {}).at("state").at("param_groups.0.0");
  EXPECT_EQ(state.at("step").to<int>(), 1) << "as it was when it was checked";
  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.5);
}

// An optimizer of a user's own.
struct CountingSGD : torch::optim::SGD {
  using SGD::SGD;
  int counted = 0;
};
struct UnknownSGD : torch::optim::SGD {
  using SGD::SGD;
};

TEST(OptimizerState, OfAUsersClassNeedsACodec) {
  register_optimizer_codec<CountingSGD>(
      {.name = "CountingSGD",
       .state_dict = [](CountingSGD& optimizer, const ParameterNames&) -> StateDict {
         return {{"counted", optimizer.counted}};
       },
       .load_state_dict =
           [](CountingSGD& optimizer, const StateDict& state, const ParameterNames&) {
             optimizer.counted = state.at("counted").to<int>();
           }});
  CountingSGD first({torch::ones({1})}, torch::optim::SGDOptions(0.1));
  CountingSGD second({torch::ones({1})}, torch::optim::SGDOptions(0.1));
  first.counted = 5;
  load_optimizer_state_dict(second, optimizer_state_dict(first, {}), {});
  EXPECT_EQ(second.counted, 5);

  UnknownSGD unknown({torch::ones({1})}, torch::optim::SGDOptions(0.1));
  try {
    (void)optimizer_state_dict(unknown, {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "register_optimizer_codec<", error.what());
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "UnknownSGD", error.what());
  }
  EXPECT_THROW(
      register_optimizer_codec<UnknownSGD>({.name = "x", .state_dict = {}, .load_state_dict = {}}),
      UsageError);
}

TEST(OptimizerState, TwoParametersOfOneNameAreRefused) {
  const auto a = torch::ones({1}), b = torch::ones({1});
  torch::optim::SGD sgd({a, b}, torch::optim::SGDOptions(0.1));
  EXPECT_THROW((void)optimizer_state_dict(
                   sgd, {{a.unsafeGetTensorImpl(), "w"}, {b.unsafeGetTensorImpl(), "w"}}),
               UsageError);
}

}  // namespace
}  // namespace accelerate
