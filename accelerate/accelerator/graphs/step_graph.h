// When a training step is recorded, replayed or run as it is: GraphedStep without its types.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/accelerator/graphs/captured_graph.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/fused_step.h"

namespace accelerate {
class Accelerator;
}

namespace accelerate::detail {

class StepGraph {
 public:
  enum class Way {
    eager,    ///< Call run().
    capture,  ///< Copy the inputs, call capture() on the copies, and if it returns true replay().
    replay,   ///< Call replay(), with the new inputs.
  };

  /// `graph`: what is recorded into; null where the device has no graphs. The first `warm_up` steps
  /// run as they are.
  StepGraph(Accelerator& accelerator, std::unique_ptr<CapturedGraph> graph, int warm_up);
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;

  /// Returns what to do with a batch of `inputs`. Warns the first time that it decides against the
  /// graph.
  [[nodiscard]] Way way_for(const std::vector<at::Tensor>& inputs);
  /// Runs a step as it is.
  void run(const std::function<void()>& step);
  /// Records a step that reads `inputs`. Returns false if the step cannot be recorded; it has not
  /// been made then, and none will be recorded later.
  [[nodiscard]] bool capture(const std::vector<at::Tensor>& inputs,
                             const std::function<void()>& step);
  /// Copies `inputs` to the recorded inputs and makes the step. Without `inputs` the recorded ones
  /// hold the batch already.
  void replay(const std::vector<at::Tensor>& inputs);

  [[nodiscard]] bool is_captured() const { return captured_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  using Optimizers = std::vector<AcceleratedOptimizer>;

  [[nodiscard]] std::string obstacle(const std::vector<at::Tensor>& inputs,
                                     const Optimizers& optimizers) const;
  void warn_of(const std::string& reason);
  void drop();
  [[nodiscard]] bool fits(const std::vector<at::Tensor>& inputs) const;
  [[nodiscard]] bool hold(const Optimizers& optimizers) const;
  void end_recording(const std::vector<double>& rates_before);
  void take_back(const std::vector<double>& rates_before);
  [[nodiscard]] std::vector<double> rates() const;
  void set_rates(const std::vector<double>& rates);

  Accelerator* accelerator_;
  std::unique_ptr<CapturedGraph> graph_;
  Optimizers optimizers_;  // All that were prepared when it was recorded.
  std::vector<std::unique_ptr<FusedRecording>> recordings_;  // One for each of them.
  std::vector<at::Tensor> inputs_;                           // Of the graph.
  std::string reason_;
  int warm_up_;
  bool captured_ = false;
  bool failed_ = false;  // To record. For good.
  bool told_of_shapes_ = false;
};

}  // namespace accelerate::detail
