#include "accelerate/optim/schedules/momentum.h"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <tuple>

namespace accelerate::detail {
namespace {

using torch::optim::OptimizerOptions;

// Calls `use` with the momentum of typed options, or with the first beta. Returns false for other
// options.
template <typename Options, typename Use>
bool if_momentum(OptimizerOptions& options, const Use& use) {
  auto* typed = dynamic_cast<Options*>(&options);
  if (typed == nullptr) return false;
  use("momentum", typed->momentum());
  return true;
}

template <typename Options, typename Use>
bool if_betas(OptimizerOptions& options, const Use& use) {
  auto* typed = dynamic_cast<Options*>(&options);
  if (typed == nullptr) return false;
  use("betas", std::get<0>(typed->betas()));
  return true;
}

template <typename Use>
bool visit_momentum(OptimizerOptions& options, const Use& use) {
  using namespace torch::optim;
  return if_momentum<SGDOptions>(options, use) || if_momentum<RMSpropOptions>(options, use) ||
         if_betas<AdamOptions>(options, use) || if_betas<AdamWOptions>(options, use);
}

}  // namespace

std::string momentum_field(torch::optim::Optimizer& optimizer) {
  std::string found;
  visit_momentum(optimizer.defaults(), [&](const char* name, double&) { found = name; });
  return found;
}

double group_momentum(const torch::optim::OptimizerParamGroup& group) {
  double found = 0;
  // Only reads: LibTorch's typed accessors need a mutable object.
  visit_momentum(const_cast<OptimizerOptions&>(group.options()),
                 [&](const char*, double& value) { found = value; });
  return found;
}

void set_group_momentum(torch::optim::OptimizerParamGroup& group, double momentum) {
  visit_momentum(group.options(), [&](const char*, double& value) { value = momentum; });
}

}  // namespace accelerate::detail
