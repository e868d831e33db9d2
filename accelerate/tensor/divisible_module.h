// The interface between a model and the engines that divide its parameters among ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor/named_tensor.h"

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
    /// As rowwise, from inputs that each rank has whole: it reads the part that belongs to its rows.
    rowwise_split_input,
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

/// An optional base class beside torch::nn::Module.
class DivisibleModule {
 public:
  virtual ~DivisibleModule() = default;

  /// Returns the class names of modules that stay whole. They are FSDP's units if its configuration
  /// names none.
  [[nodiscard]] virtual std::vector<std::string> no_split_modules() const = 0;

  /// Makes the model keep nothing but the inputs of its layers for backward. Returns false, without
  /// doing anything, if it cannot do that by itself: an engine does it then.
  virtual bool compute_layers_again() { return false; }

  /// Returns which weights a group of tensor-parallel ranks cuts, and where a pipeline may be cut.
  /// Empty if the model does not say.
  [[nodiscard]] virtual ParallelPlan parallel_plan() const { return {}; }

  /// Writes tensors. A tensor on the meta device is only an outline; `fetch` returns it by its
  /// name.
  using Write = std::function<void(const std::vector<NamedTensor>& tensors,
                                   const std::function<at::Tensor(const std::string&)>& fetch)>;
  /// Calls `write` on rank 0, which fetches one whole tensor after the other. Returns false,
  /// without doing anything, if the model is no longer divided. [collective]
  using WithWhole = std::function<bool(const Write& write)>;
  /// Called by the engine that has divided the parameters.
  void set_with_whole(WithWhole with_whole) { with_whole_ = std::move(with_whole); }

 protected:
  DivisibleModule() = default;
  /// Empty until an engine has divided the parameters.
  [[nodiscard]] const WithWhole& with_whole() const { return with_whole_; }

 private:
  WithWhole with_whole_;
};

}  // namespace accelerate
