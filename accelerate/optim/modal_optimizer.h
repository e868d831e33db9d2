// Optimizers whose parameters hold other values in training than in evaluation.
#pragma once

namespace accelerate {

enum class OptimizerMode { train, eval };

/// A second base of optimizers whose parameters must be switched around an evaluation, such as
/// ScheduleFreeAdamW. Switch a prepared optimizer through its handle, by
/// AcceleratedOptimizer::train() and eval(), which also informs sharded models.
class ModalOptimizer {
 public:
  virtual ~ModalOptimizer() = default;

  /// Gives the parameters the values at which gradients are computed. Call it before training, and
  /// after every evaluation. Does nothing if already in that mode.
  void train() { set_mode(OptimizerMode::train); }
  /// Gives the parameters the values to evaluate and to save. Does nothing if already in that mode.
  void eval() { set_mode(OptimizerMode::eval); }

  virtual void set_mode(OptimizerMode mode) = 0;
  /// Whether set_mode(mode) would change nothing. Does not look at parameters.
  [[nodiscard]] virtual bool is_in(OptimizerMode mode) const = 0;

 protected:
  ModalOptimizer() = default;
  ModalOptimizer(const ModalOptimizer&) = default;
  ModalOptimizer& operator=(const ModalOptimizer&) = default;
};

}  // namespace accelerate
