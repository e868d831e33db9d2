// The interface between a model and the engines that divide its parameters among ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor/named_tensor.h"
#include "accelerate/tensor/parallel_plan.h"

namespace accelerate {

/// An optional base class beside torch::nn::Module.
class DivisibleModule {
 public:
  virtual ~DivisibleModule() = default;

  /// Returns the class names of modules that stay whole. They are FSDP's units if its configuration
  /// names none.
  [[nodiscard]] virtual std::vector<std::string> no_split_modules() const = 0;

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
