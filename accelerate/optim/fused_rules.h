// How each optimizer of LibTorch that has fused kernels is stepped by them: what its state holds,
// which kernel updates it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accelerate/optim/fused_buckets.h"
#include "accelerate/tensor/compat/fused_optimizers.h"

namespace accelerate::detail {

// Returns the state of `parameter`, which `create` fills in if it is new. Returns null if the state
// is not a State.
template <typename State, typename Create>
State* fused_state_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                      const Create& create) {
  auto& states = optimizer.state();
  void* const key = parameter.unsafeGetTensorImpl();
  auto found = states.find(key);
  if (found == states.end()) {
    auto fresh = std::make_unique<State>();
    create(*fresh);
    found = states.emplace(key, std::move(fresh)).first;
  }
  auto* state = found->second.get();
  return state != nullptr && typeid(*state) == typeid(State) ? static_cast<State*>(state) : nullptr;
}

// Returns the state of `parameter`, or null if there is none of that type.
template <typename State>
State* find_fused_state(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : dynamic_cast<State*>(found->second.get());
}

// Reserves memory, by parameter, for state tensors that do not exist yet. Gives places in files to
// parameters whose state lives there.
class FusedPlaces {
 public:
  void keep(const at::Tensor& parameter, int tensors) {
    for (int i = 0; i < tensors; ++i)
      kept_[parameter.unsafeGetTensorImpl()].push_back(at::empty_like(parameter));
  }
  // Returns memory of arbitrary content for state tensor `number` of `parameter`.
  [[nodiscard]] at::Tensor empty_for(const at::Tensor& parameter, int number) {
    const auto store = OffloadStore::keeping_state_of(parameter);
    return store == nullptr ? at::empty_like(parameter) : store->take_state(parameter, number);
  }
  [[nodiscard]] at::Tensor zeros_for(const at::Tensor& parameter, int number) {
    if (const auto store = OffloadStore::keeping_state_of(parameter))
      return store->take_zero_state(parameter, number);
    const auto found = kept_.find(parameter.unsafeGetTensorImpl());
    if (found == kept_.end() || found->second.empty() ||
        !compat::accompanies(parameter, found->second.back()))
      return at::zeros_like(parameter);
    at::Tensor place = std::move(found->second.back());
    found->second.pop_back();
    return place.zero_();
  }
  void drop() { kept_.clear(); }

 private:
  std::unordered_map<const void*, std::vector<at::Tensor>> kept_;
};

// A rule describes one kind of optimizer. take() puts a parameter into a bucket, or returns false
// if the kernel cannot update it. update() updates a bucket. holds() says whether the state of
// parameter k still has the tensors of a recorded bucket, steps_of() reads the step number in it,
// and move() changes it. kMovesVersion says whether a step of torch::optim increments the version
// counters of parameters, by which autograd detects that a graph is out of date.

// Step numbers of optimizers that keep one for each parameter.
template <typename State>
struct CountedSteps {
  static std::int64_t steps_of(torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
    return find_fused_state<State>(optimizer, parameter)->step();
  }

  static void move(torch::optim::Optimizer& optimizer, const at::Tensor& parameter,
                   std::int64_t steps) {
    State* state = find_fused_state<State>(optimizer, parameter);
    state->step(state->step() + steps);
  }
};

template <typename OptionsType, typename State, compat::FusedOptimizer which,
          void kernel(const compat::FusedTensors&, const compat::FusedAdamOptions&)>
struct FusedAdamRule : CountedSteps<State> {
  using Options = OptionsType;
  static constexpr auto kWhich = which;
  static constexpr bool kMovesVersion = true;

  static int places_of(const Options& options) { return options.amsgrad() ? 3 : 2; }

  static bool take(FusedBuckets& buckets, torch::optim::Optimizer& optimizer,
                   const Options& options, const at::Tensor& parameter, FusedPlaces& places) {
    State* state = fused_state_of<State>(optimizer, parameter, [&](State& fresh) {
      fresh.exp_avg(places.zeros_for(parameter, 0));
      fresh.exp_avg_sq(places.zeros_for(parameter, 1));
      if (options.amsgrad()) fresh.max_exp_avg_sq(places.zeros_for(parameter, 2));
    });
    if (state == nullptr || !fits(*state, options, parameter)) return false;
    state->step(state->step() + 1);
    auto& lists = buckets.find(parameter, state->step());
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(parameter.grad());
    lists.first.push_back(state->exp_avg());
    lists.second.push_back(state->exp_avg_sq());
    if (options.amsgrad()) lists.third.push_back(state->max_exp_avg_sq());
    return true;
  }

  static bool fits(const State& state, const Options& options, const at::Tensor& parameter) {
    return state.step() < compat::kLastFusedStep &&
           compat::accompanies(parameter, state.exp_avg()) &&
           compat::accompanies(parameter, state.exp_avg_sq()) &&
           (!options.amsgrad() || compat::accompanies(parameter, state.max_exp_avg_sq()));
  }

  static void update(FusedBucket& bucket, const Options& options) {
    bucket.count_steps();
    const auto [beta1, beta2] = options.betas();
    kernel(bucket.tensors,
           {options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad()});
  }

  static bool holds(torch::optim::Optimizer& optimizer, const FusedBucket& bucket, std::size_t k) {
    const auto& lists = bucket.tensors;
    const State* state = find_fused_state<State>(optimizer, lists.parameters[k]);
    return state != nullptr && state->exp_avg().is_same(lists.first[k]) &&
           state->exp_avg_sq().is_same(lists.second[k]) &&
           (lists.third.empty() || state->max_exp_avg_sq().is_same(lists.third[k]));
  }
};

struct FusedSgdRule {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr auto kWhich = compat::FusedOptimizer::sgd;
  static constexpr bool kMovesVersion = false;  // torch::optim works on parameter.data().

  static int places_of(const Options&) { return 0; }

  static bool take(FusedBuckets& buckets, torch::optim::Optimizer& optimizer,
                   const Options& options, const at::Tensor& parameter, FusedPlaces& places) {
    bool is_first = false;
    at::Tensor buffer;
    if (options.momentum() != 0) {
      State* state = fused_state_of<State>(optimizer, parameter, [&](State& fresh) {
        fresh.momentum_buffer(places.empty_for(parameter, 0));
        is_first = true;
      });
      if (state == nullptr || !compat::accompanies(parameter, state->momentum_buffer())) {
        return false;
      }
      buffer = state->momentum_buffer();
    }
    auto& lists = buckets.find(parameter, is_first ? 1 : 2);
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(parameter.grad());
    if (buffer.defined()) lists.first.push_back(std::move(buffer));
    return true;
  }

  static void update(FusedBucket& bucket, const Options& options) {
    compat::fused_sgd_(bucket.tensors,
                       {options.lr(), options.momentum(), options.dampening(),
                        options.weight_decay(), options.nesterov(), bucket.number == 1});
  }

  static bool holds(torch::optim::Optimizer& optimizer, const FusedBucket& bucket, std::size_t k) {
    if (bucket.tensors.first.empty()) return true;
    const State* state = find_fused_state<State>(optimizer, bucket.tensors.parameters[k]);
    return state != nullptr && state->momentum_buffer().is_same(bucket.tensors.first[k]);
  }

  static std::int64_t steps_of(torch::optim::Optimizer&, const at::Tensor&) { return 0; }
  static void move(torch::optim::Optimizer&, const at::Tensor&, std::int64_t) {}
};

struct FusedAdagradRule : CountedSteps<torch::optim::AdagradParamState> {
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr auto kWhich = compat::FusedOptimizer::adagrad;
  static constexpr bool kMovesVersion = true;

  static int places_of(const Options&) { return 0; }

  static bool take(FusedBuckets& buckets, torch::optim::Optimizer& optimizer,
                   const Options& options, const at::Tensor& parameter, FusedPlaces& places) {
    // The constructor made the state, except for groups that were added later.
    State* state = fused_state_of<State>(optimizer, parameter, [&](State& fresh) {
      fresh.step(0);
      fresh.sum(places.empty_for(parameter, 0).fill_(options.initial_accumulator_value()));
    });
    if (state == nullptr || state->step() >= compat::kLastFusedStep ||
        !compat::accompanies(parameter, state->sum())) {
      return false;
    }
    state->step(state->step() + 1);
    auto& lists = buckets.find(parameter, state->step());
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(parameter.grad());
    lists.first.push_back(state->sum());
    return true;
  }

  static void update(FusedBucket& bucket, const Options& options) {
    bucket.count_steps();
    compat::fused_adagrad_(
        bucket.tensors, {options.lr(), options.lr_decay(), options.weight_decay(), options.eps()});
  }

  static bool holds(torch::optim::Optimizer& optimizer, const FusedBucket& bucket, std::size_t k) {
    const State* state = find_fused_state<State>(optimizer, bucket.tensors.parameters[k]);
    return state != nullptr && state->sum().is_same(bucket.tensors.first[k]);
  }
};

using FusedAdam = FusedAdamRule<torch::optim::AdamOptions, torch::optim::AdamParamState,
                                compat::FusedOptimizer::adam, compat::fused_adam_>;
using FusedAdamW = FusedAdamRule<torch::optim::AdamWOptions, torch::optim::AdamWParamState,
                                 compat::FusedOptimizer::adamw, compat::fused_adamw_>;

}  // namespace accelerate::detail
