// How a model may be divided among ranks. Models provide this data and engines read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

/// Names are those of modules below the model. '*' stands for an index: "layers.*.mlp.up_proj".
struct ParallelPlan {
  /// How a weight matrix, from inputs to outputs, is divided among tensor-parallel ranks.
  enum class Cut : std::uint8_t {
    /// Each rank has some of the outputs, with their bias, and keeps its part of the result.
    colwise,
    /// Each rank has some of the inputs. The ranks' results are summed, and the bias is added once.
    rowwise,
    /// As colwise; then each rank gathers all outputs.
    colwise_gather_output,
  };
  struct Rule {
    std::string modules;
    Cut cut = Cut::colwise;
    /// The number of matrices of equal size that stand side by side in the outputs. Each is cut
    /// separately: 3 where queries, keys and values are one weight.
    std::int64_t parts = 1;
  };

  std::vector<Rule> tensor_parallel = {};
  /// Groups of modules, in the order in which they compute. A pipeline may be cut between any two
  /// groups, and between the modules that a '*' stands for. Weights that are tied across a cut must
  /// be kept equal.
  std::vector<std::vector<std::string>> pipeline = {};

  /// Returns this plan for a model that contains the planned model under the name `prefix`.
  [[nodiscard]] ParallelPlan below(const std::string& prefix) const {
    ParallelPlan plan = *this;
    for (Rule& rule : plan.tensor_parallel) rule.modules = prefix + "." + rule.modules;
    for (auto& group : plan.pipeline)
      for (std::string& module : group) module = prefix + "." + module;
    return plan;
  }
};

}  // namespace accelerate
