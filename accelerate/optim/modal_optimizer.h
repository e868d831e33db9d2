// Optimizers whose parameters hold other values while training than in an evaluation.
#pragma once

namespace accelerate {

enum class OptimizerMode { train, eval };

/// What an optimizer is besides a torch::optim::Optimizer when its parameters must be switched
/// around an evaluation, as those of ScheduleFreeAdamW. A prepared optimizer is switched through
/// its handle, AcceleratedOptimizer::train() and eval(), which also tells sharded models.
class ModalOptimizer {
 public:
  virtual ~ModalOptimizer() = default;

  /// Gives the parameters the values that gradients are computed at. Call it before training, and
  /// after every evaluation. Does nothing in that mode already.
  void train() { set_mode(OptimizerMode::train); }
  /// Gives the parameters the values to evaluate and to save. Does nothing in that mode already.
  void eval() { set_mode(OptimizerMode::eval); }

  virtual void set_mode(OptimizerMode mode) = 0;
  /// Whether set_mode(mode) would change nothing. Costs no look at a parameter.
  [[nodiscard]] virtual bool is_in(OptimizerMode mode) const = 0;

 protected:
  ModalOptimizer() = default;
  ModalOptimizer(const ModalOptimizer&) = default;
  ModalOptimizer& operator=(const ModalOptimizer&) = default;
};

}  // namespace accelerate
