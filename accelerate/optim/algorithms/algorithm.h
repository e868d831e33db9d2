// What the optimizers of this folder have in common. An optimizer adds its options, its state and
// its step. Options and states name their fields once, as Python does, in a member `visit`.
#pragma once

#include <string>
#include <vector>

#include <torch/arg.h>
#include <torch/optim/optimizer.h>

namespace accelerate {

/// Options of an optimizer. `Self` has a member visit(field), which calls field(name, value) for
/// each option, the constant kOptimizer, and check(), which throws ConfigError for a value that is
/// not allowed.
template <typename Self>
struct AlgorithmOptions : public torch::optim::OptimizerCloneableOptions<Self> {
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// What an optimizer remembers of a parameter. `Self` has a member visit(field).
template <typename Self>
struct AlgorithmParamState : public torch::optim::OptimizerCloneableParamState<Self> {
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

/// An optimizer with these classes of options and state.
template <typename Options, typename State>
class Algorithm : public torch::optim::Optimizer {
 public:
  /// Throws ConfigError for options that are not allowed, the groups' included.
  explicit Algorithm(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                     Options defaults = {});
  explicit Algorithm(std::vector<at::Tensor> params, Options defaults = {});

  /// Adds a group. The group's options replace the optimizer's entirely; a group without options
  /// gets the optimizer's. Throws as the constructor does.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  /// Returns the options of `group`. Throws UsageError if they belong to another optimizer class.
  [[nodiscard]] static Options& options_of(torch::optim::OptimizerParamGroup& group);
  /// Returns what the optimizer remembers of `parameter`. Makes it if it is missing.
  [[nodiscard]] State& state_of(const at::Tensor& parameter);
};

}  // namespace accelerate
