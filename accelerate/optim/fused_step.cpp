#include "accelerate/optim/fused_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <tuple>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accelerate/tensor/compat/fused_optimizers.h"

namespace accelerate::detail {
namespace {

using compat::FusedOptimizer;
using compat::FusedTensors;
using torch::optim::Optimizer;

// The parameters that one kernel call updates: of one group, device, dtype and step number.
struct Bucket {
  [[nodiscard]] bool holds(const at::Tensor& parameter, std::int64_t step_number) const {
    const auto& first = tensors.parameters.front();
    return number == step_number && first.scalar_type() == parameter.scalar_type() &&
           first.device() == parameter.device();
  }

  // Sets the step number as the kernels expect it: one tensor per parameter, here the same for all.
  void count_steps() {
    const auto device = tensors.parameters.front().device();
    if (!counter.defined() || counter.device() != device) {
      counter = at::empty({}, at::TensorOptions(at::kFloat).device(device));
    }
    counter.fill_(number);
    tensors.steps.assign(tensors.parameters.size(), counter);
  }

  void clear() {
    for (auto* list : {&tensors.parameters, &tensors.gradients, &tensors.first, &tensors.second,
                       &tensors.third, &tensors.steps}) {
      list->clear();
    }
  }

  std::int64_t number = 0;
  FusedTensors tensors;
  at::Tensor counter;
};

// The buckets of a step. clear() keeps their memory for the next step.
class Buckets {
 public:
  FusedTensors& find(const at::Tensor& parameter, std::int64_t number) {
    for (std::size_t i = used_; i-- > group_;) {
      if (all_[i].holds(parameter, number)) return all_[i].tensors;
    }
    if (used_ == all_.size()) all_.emplace_back();
    all_[used_].number = number;
    return all_[used_++].tensors;
  }

  // Returns the buckets since the last call.
  [[nodiscard]] std::pair<Bucket*, Bucket*> close_group() {
    const auto begin = std::exchange(group_, used_);
    return {all_.data() + begin, all_.data() + used_};
  }

  template <typename Fn>
  void for_each(Fn&& fn) {
    for (std::size_t i = 0; i < used_; ++i) {
      auto& tensors = all_[i].tensors;
      for (std::size_t k = 0; k < tensors.parameters.size(); ++k) {
        fn(tensors.parameters[k], tensors.gradients[k]);
      }
    }
  }

  void clear() {
    for (std::size_t i = 0; i < used_; ++i) all_[i].clear();
    group_ = used_ = 0;
  }

 private:
  std::vector<Bucket> all_;
  std::size_t group_ = 0;  // The first bucket of the present group.
  std::size_t used_ = 0;
};

struct ClearAtEnd {
  Buckets& buckets;
  ~ClearAtEnd() { buckets.clear(); }
};

// While alive, hides the gradients of the parameters that the kernels have updated, so that the
// optimizer's step() skips these parameters.
class HiddenGradients {
 public:
  explicit HiddenGradients(Buckets& buckets) : buckets_(buckets) {
    buckets_.for_each([](at::Tensor& leaf, at::Tensor&) { leaf.mutable_grad() = at::Tensor(); });
  }
  ~HiddenGradients() {
    buckets_.for_each([](at::Tensor& leaf, at::Tensor& grad) { leaf.mutable_grad() = grad; });
  }
  HiddenGradients(const HiddenGradients&) = delete;
  HiddenGradients& operator=(const HiddenGradients&) = delete;

 private:
  Buckets& buckets_;
};

// Returns the state of `parameter`, which `create` fills in if it is new. Returns null if the state
// is not a State.
template <typename State, typename Create>
State* state_of(Optimizer& optimizer, const at::Tensor& parameter, const Create& create) {
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

// Reserves memory, by parameter, for state tensors that do not exist yet.
class Places {
 public:
  void keep(const at::Tensor& parameter, int tensors) {
    for (int i = 0; i < tensors; ++i)
      kept_[parameter.unsafeGetTensorImpl()].push_back(at::empty_like(parameter));
  }
  [[nodiscard]] at::Tensor zeros_for(const at::Tensor& parameter) {
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
// if the kernel cannot update it. update() updates a bucket. kMovesVersion says whether a step of
// torch::optim increments the version counters of parameters, by which autograd detects that a
// graph is out of date.

template <typename OptionsType, typename State, FusedOptimizer which,
          void kernel(const FusedTensors&, const compat::FusedAdamSettings&)>
struct AdamRule {
  using Options = OptionsType;
  static constexpr auto kWhich = which;
  static constexpr bool kMovesVersion = true;

  static int places_of(const Options& options) { return options.amsgrad() ? 3 : 2; }

  static bool take(Buckets& buckets, Optimizer& optimizer, const Options& options,
                   const at::Tensor& parameter, Places& places) {
    State* state = state_of<State>(optimizer, parameter, [&](State& fresh) {
      fresh.exp_avg(places.zeros_for(parameter));
      fresh.exp_avg_sq(places.zeros_for(parameter));
      if (options.amsgrad()) fresh.max_exp_avg_sq(places.zeros_for(parameter));
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

  static void update(Bucket& bucket, const Options& options) {
    bucket.count_steps();
    const auto [beta1, beta2] = options.betas();
    kernel(bucket.tensors,
           {options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad()});
  }
};

struct SgdRule {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr auto kWhich = FusedOptimizer::sgd;
  static constexpr bool kMovesVersion = false;  // torch::optim works on parameter.data().

  static int places_of(const Options&) { return 0; }

  static bool take(Buckets& buckets, Optimizer& optimizer, const Options& options,
                   const at::Tensor& parameter, Places&) {
    bool is_first = false;
    at::Tensor buffer;
    if (options.momentum() != 0) {
      State* state = state_of<State>(optimizer, parameter, [&](State& fresh) {
        fresh.momentum_buffer(at::empty_like(parameter));
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

  static void update(Bucket& bucket, const Options& options) {
    compat::fused_sgd_(bucket.tensors,
                       {options.lr(), options.momentum(), options.dampening(),
                        options.weight_decay(), options.nesterov(), bucket.number == 1});
  }
};

struct AdagradRule {
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr auto kWhich = FusedOptimizer::adagrad;
  static constexpr bool kMovesVersion = true;

  static int places_of(const Options&) { return 0; }

  static bool take(Buckets& buckets, Optimizer& optimizer, const Options& options,
                   const at::Tensor& parameter, Places&) {
    // The constructor made the state, except for groups that were added later.
    State* state = state_of<State>(optimizer, parameter, [&](State& fresh) {
      fresh.step(0);
      fresh.sum(at::full_like(parameter, options.initial_accumulator_value()));
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

  static void update(Bucket& bucket, const Options& options) {
    bucket.count_steps();
    compat::fused_adagrad_(
        bucket.tensors, {options.lr(), options.lr_decay(), options.weight_decay(), options.eps()});
  }
};

using AdamKernel = AdamRule<torch::optim::AdamOptions, torch::optim::AdamParamState,
                            FusedOptimizer::adam, compat::fused_adam_>;
using AdamWKernel = AdamRule<torch::optim::AdamWOptions, torch::optim::AdamWParamState,
                             FusedOptimizer::adamw, compat::fused_adamw_>;

template <typename Rule>
class FusedStepOf final : public FusedStep {
 public:
  explicit FusedStepOf(const Optimizer& optimizer) {
    for (const auto& group : optimizer.param_groups()) {
      const auto* options = dynamic_cast<const typename Rule::Options*>(&group.options());
      for (const auto& parameter : group.params()) {
        const auto& states = optimizer.state();
        const bool has_state = states.find(parameter.unsafeGetTensorImpl()) != states.end();
        if (options != nullptr && parameter.is_cpu() && parameter.requires_grad() && !has_state)
          places_.keep(parameter, Rule::places_of(*options));
      }
    }
  }

  void run(Optimizer& optimizer) override {
    const at::NoGradGuard no_grad;
    const ClearAtEnd clear{buckets_};
    bool some_left = false;
    for (auto& group : optimizer.param_groups()) some_left |= run_group(optimizer, group);
    places_.drop();
    if (!some_left) return;
    const HiddenGradients hidden(buckets_);
    optimizer.step();
  }

  void drop_places() override { places_.drop(); }

 private:
  // Returns whether a gradient is left for the optimizer's step().
  bool run_group(Optimizer& optimizer, const torch::optim::OptimizerParamGroup& group) {
    const auto* options = dynamic_cast<const typename Rule::Options*>(&group.options());
    bool some_left = false;
    for (const auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const bool taken = options != nullptr && compat::can_fuse(Rule::kWhich, parameter) &&
                         compat::accompanies(parameter, parameter.grad()) &&
                         Rule::take(buckets_, optimizer, *options, parameter, places_);
      some_left |= !taken;
    }
    const auto [begin, end] = buckets_.close_group();
    for (auto* bucket = begin; bucket != end; ++bucket) update(*bucket, *options);
    return some_left;
  }

  static void update(Bucket& bucket, const typename Rule::Options& options) {
    Rule::update(bucket, options);
    if constexpr (Rule::kMovesVersion) {
      for (const auto& leaf : bucket.tensors.parameters) leaf.unsafeGetTensorImpl()->bump_version();
    }
  }

  Buckets buckets_;
  Places places_;
};

}  // namespace

std::unique_ptr<FusedStep> FusedStep::of(const Optimizer& optimizer) {
  const auto& type = typeid(optimizer);
  if (type == typeid(torch::optim::SGD)) return std::make_unique<FusedStepOf<SgdRule>>(optimizer);
  if (type == typeid(torch::optim::Adam))
    return std::make_unique<FusedStepOf<AdamKernel>>(optimizer);
  if (type == typeid(torch::optim::AdamW))
    return std::make_unique<FusedStepOf<AdamWKernel>>(optimizer);
  if (type == typeid(torch::optim::Adagrad))
    return std::make_unique<FusedStepOf<AdagradRule>>(optimizer);
  return nullptr;
}

}  // namespace accelerate::detail
