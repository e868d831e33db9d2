// How a model may be divided among ranks: data that models give and engines read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

/// Names are those of modules below the model, with '*' for an index: "layers.*.mlp.up_proj".
struct ParallelPlan {
  /// How a matrix of weights, from inputs to outputs, is divided among tensor-parallel ranks.
  enum class Cut : std::uint8_t {
    /// Each rank has some of the outputs, with their bias, and keeps what it computes of them.
    colwise,
    /// Each rank has some of the inputs; the results of all are summed, and the bias added once.
    rowwise,
    /// As colwise, and each rank gathers the outputs of all.
    colwise_gather_output,
  };
  struct Rule {
    std::string modules;
    Cut cut = Cut::colwise;
    /// How many matrices of one size stand side by side in the outputs, each of which is cut: 3
    /// where queries, keys and values are one weight.
    std::int64_t parts = 1;
  };

  std::vector<Rule> tensor_parallel = {};
  /// Groups of modules in the order in which they compute. A pipeline may be cut between any two
  /// groups, and between the modules that a '*' stands for. Weights that are tied across a cut have
  /// to be kept equal.
  std::vector<std::vector<std::string>> pipeline = {};

  /// The same plan for a model that has this one under the name `prefix`.
  [[nodiscard]] ParallelPlan below(const std::string& prefix) const {
    ParallelPlan plan = *this;
    for (Rule& rule : plan.tensor_parallel) rule.modules = prefix + "." + rule.modules;
    for (auto& group : plan.pipeline)
      for (std::string& module : group) module = prefix + "." + module;
    return plan;
  }
};

}  // namespace accelerate
