// The bodies of algorithm.h, for the sources of this folder: torch::optim's serialisation is dear to
// compile.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <memory>
#include <utility>

#include "accelerate/optim/algorithms/algorithm.h"
#include "accelerate/optim/algorithms/step_support.h"

namespace accelerate {
namespace detail {

// Reads the fields of `visited`. Does not change fields that the archive lacks.
void read_fields(torch::serialize::InputArchive& archive, auto& visited) {
  auto field = [&archive]<typename T>(const char* name, T& value) {
    c10::IValue stored;
    if (archive.try_read(name, stored)) value = stored.to<T>();
  };
  visited.visit(field);
}

// Writes each field under its name. Leaves out undefined tensors.
void write_fields(torch::serialize::OutputArchive& archive, auto copy) {
  auto field = [&archive]<typename T>(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      if (!value.defined()) return;
    }
    archive.write(name, c10::IValue(value));
  };
  copy.visit(field);
}

}  // namespace detail

template <typename Self>
void AlgorithmOptions<Self>::serialize(torch::serialize::InputArchive& archive) {
  detail::read_fields(archive, static_cast<Self&>(*this));
}

template <typename Self>
void AlgorithmOptions<Self>::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_fields(archive, static_cast<const Self&>(*this));
}

template <typename Self>
void AlgorithmParamState<Self>::serialize(torch::serialize::InputArchive& archive) {
  detail::read_fields(archive, static_cast<Self&>(*this));
}

template <typename Self>
void AlgorithmParamState<Self>::serialize(torch::serialize::OutputArchive& archive) const {
  detail::write_fields(archive, static_cast<const Self&>(*this));
}

template <typename Options, typename State>
Algorithm<Options, State>::Algorithm(
    const std::vector<torch::optim::OptimizerParamGroup>& param_groups, Options defaults)
    : Optimizer(param_groups, std::make_unique<Options>(defaults)) {
  defaults.check();
  for (std::size_t i = 0; i < param_groups.size(); ++i)
    detail::keep_options(param_groups[i], param_groups_[i]);
  for (auto& group : param_groups_) options_of(group).check();
}

template <typename Options, typename State>
Algorithm<Options, State>::Algorithm(std::vector<at::Tensor> params, Options defaults)
    : Algorithm({torch::optim::OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}

template <typename Options, typename State>
void Algorithm<Options, State>::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::OptimizerParamGroup added = group;
  if (!added.has_options()) added.set_options(defaults().clone());
  options_of(added).check();
  Optimizer::add_param_group(added);
  detail::keep_options(added, param_groups_.back());
}

template <typename Options, typename State>
void Algorithm<Options, State>::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<State, Options>(archive, *this);
}

template <typename Options, typename State>
void Algorithm<Options, State>::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<State, Options>(archive, *this);
}

template <typename Options, typename State>
Options& Algorithm<Options, State>::options_of(torch::optim::OptimizerParamGroup& group) {
  auto* options = dynamic_cast<Options*>(&group.options());
  if (options == nullptr) detail::refuse_options_class(Options::kOptimizer, group.options());
  return *options;
}

template <typename Options, typename State>
State& Algorithm<Options, State>::state_of(const at::Tensor& parameter) {
  auto& state = this->state()[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

}  // namespace accelerate
