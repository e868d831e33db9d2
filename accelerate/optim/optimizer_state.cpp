#include "accelerate/optim/optimizer_state.h"

#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <string>
#include <typeinfo>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

using Map = std::function<at::Tensor(const at::Tensor&)>;

// Replaces the tensors of `state` when it is a State; `fields` are pairs of getter and setter
// names.
#define ACCELERATE_MAP_FIELD(field) \
  if (typed->field().defined()) typed->field(fn(typed->field()))

bool map_adam(torch::optim::OptimizerParamState& state, const Map& fn) {
  auto* typed = dynamic_cast<torch::optim::AdamParamState*>(&state);
  if (typed == nullptr) return false;
  ACCELERATE_MAP_FIELD(exp_avg);
  ACCELERATE_MAP_FIELD(exp_avg_sq);
  ACCELERATE_MAP_FIELD(max_exp_avg_sq);
  return true;
}

bool map_adamw(torch::optim::OptimizerParamState& state, const Map& fn) {
  auto* typed = dynamic_cast<torch::optim::AdamWParamState*>(&state);
  if (typed == nullptr) return false;
  ACCELERATE_MAP_FIELD(exp_avg);
  ACCELERATE_MAP_FIELD(exp_avg_sq);
  ACCELERATE_MAP_FIELD(max_exp_avg_sq);
  return true;
}

bool map_sgd(torch::optim::OptimizerParamState& state, const Map& fn) {
  auto* typed = dynamic_cast<torch::optim::SGDParamState*>(&state);
  if (typed == nullptr) return false;
  ACCELERATE_MAP_FIELD(momentum_buffer);
  return true;
}

bool map_adagrad(torch::optim::OptimizerParamState& state, const Map& fn) {
  auto* typed = dynamic_cast<torch::optim::AdagradParamState*>(&state);
  if (typed == nullptr) return false;
  ACCELERATE_MAP_FIELD(sum);
  return true;
}

bool map_rmsprop(torch::optim::OptimizerParamState& state, const Map& fn) {
  auto* typed = dynamic_cast<torch::optim::RMSpropParamState*>(&state);
  if (typed == nullptr) return false;
  ACCELERATE_MAP_FIELD(square_avg);
  ACCELERATE_MAP_FIELD(momentum_buffer);
  ACCELERATE_MAP_FIELD(grad_avg);
  return true;
}

void map_all(std::deque<at::Tensor>& tensors, const Map& fn) {
  for (auto& tensor : tensors) tensor = fn(tensor);
}

bool map_lbfgs(torch::optim::OptimizerParamState& state, const Map& fn) {
  auto* typed = dynamic_cast<torch::optim::LBFGSParamState*>(&state);
  if (typed == nullptr) return false;
  ACCELERATE_MAP_FIELD(d);
  ACCELERATE_MAP_FIELD(H_diag);
  ACCELERATE_MAP_FIELD(prev_flat_grad);
  map_all(typed->old_dirs(), fn);
  map_all(typed->old_stps(), fn);
  map_all(typed->ro(), fn);
  return true;
}

#undef ACCELERATE_MAP_FIELD

}  // namespace

void map_state_tensors(torch::optim::Optimizer& optimizer, const Map& fn) {
  for (auto& [parameter, state] : optimizer.state()) {
    const bool known = map_adam(*state, fn) || map_adamw(*state, fn) || map_sgd(*state, fn) ||
                       map_adagrad(*state, fn) || map_rmsprop(*state, fn) || map_lbfgs(*state, fn);
    if (!known) {
      throw UsageError(
          "the optimizer " + c10::demangle(typeid(optimizer).name()) + " keeps its state in " +
          c10::demangle(typeid(*state).name()) +
          ", which is not one of SGD, Adam, AdamW, Adagrad, RMSprop, LBFGS. Prepare it "
          "before its first step, on the device it is to run on.");
    }
  }
}

}  // namespace accelerate
