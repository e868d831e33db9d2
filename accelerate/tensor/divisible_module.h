// What a model says of itself to engines that divide its parameters among ranks, and is told.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/parallel_plan.h"

namespace accelerate {

/// A base beside torch::nn::Module, optional.
class DivisibleModule {
 public:
  virtual ~DivisibleModule() = default;

  /// Names of classes of modules that stay whole: FSDP's units where its configuration names none.
  [[nodiscard]] virtual std::vector<std::string> no_split_modules() const = 0;

  /// Which weights a group of tensor-parallel ranks cuts, and where a pipeline may be cut; empty if
  /// the model does not say.
  [[nodiscard]] virtual ParallelPlan parallel_plan() const { return {}; }

  /// Writes tensors, of which those on the meta device are outlines that `fetch` gives by name.
  using Write = std::function<void(const std::vector<NamedTensor>& tensors,
                                   const std::function<at::Tensor(const std::string&)>& fetch)>;
  /// Calls `write` on rank 0, which fetches one whole tensor after the other; returns false, with
  /// nothing done, when the model is divided no more. [collective]
  using WithWhole = std::function<bool(const Write& write)>;
  /// Called by the engine that has divided the parameters.
  void set_with_whole(WithWhole with_whole) { with_whole_ = std::move(with_whole); }

 protected:
  DivisibleModule() = default;
  /// Empty as long as nobody has divided the parameters.
  [[nodiscard]] const WithWhole& with_whole() const { return with_whole_; }

 private:
  WithWhole with_whole_;
};

}  // namespace accelerate
