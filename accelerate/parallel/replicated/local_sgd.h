// Local SGD: ranks train on their own for a number of steps, then average their weights. Less is
// sent, and ranks wait less often. Sources: Stich, "Local SGD Converges Fast and Communicates
// Little", ICLR 2019; accelerate/local_sgd.py of Hugging Face.
//
//   {
//     LocalSGD local_sgd(accelerator, model, 8);
//     for (auto& batch : loader) {
//       accelerator.backward(loss_of(model, batch));
//       optimizer.step();
//       optimizer.zero_grad();
//       local_sgd.step();
//     }
//   }  // averages once more
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "accelerate/parallel/replicated/distributed_data_parallel.h"

namespace accelerate {

/// While alive, backward through the model does not communicate. Each rank keeps its own optimizer
/// state. Bytes on the wire: as many as one gradient all-reduce, every `local_sgd_steps` steps.
class [[nodiscard]] LocalSGD {
 public:
  /// `model`: a prepared model. All ranks must pass the same numbers and step equally often. Does
  /// nothing when `enabled` is false. Throws ConfigError for local_sgd_steps below 1.
  template <typename Accelerator, typename Model>
  LocalSGD(Accelerator& accelerator, Model& model, std::int64_t local_sgd_steps,
           bool enabled = true)
      : LocalSGD(engine_of(accelerator, model), local_sgd_steps, enabled) {}

  LocalSGD(std::shared_ptr<DistributedDataParallel> engine, std::int64_t local_sgd_steps,
           bool enabled = true);

  /// Averages the weights and turns synchronisation on again. [collective] Does not average after
  /// an exception: the ranks are no longer in step.
  ~LocalSGD() noexcept(false);
  LocalSGD(const LocalSGD&) = delete;
  LocalSGD& operator=(const LocalSGD&) = delete;

  /// To be called after each optimizer step. [collective every local_sgd_steps-th time]
  void step();

  /// The number of steps so far.
  [[nodiscard]] std::int64_t num_steps() const { return num_steps_; }

 private:
  template <typename Accelerator, typename Model>
  static std::shared_ptr<DistributedDataParallel> engine_of(Accelerator&, Model& model) {
    return model.core()->replicas("LocalSGD");
  }

  std::shared_ptr<DistributedDataParallel> engine_;
  std::int64_t local_sgd_steps_;
  bool enabled_;
  bool synchronized_before_;
  std::int64_t num_steps_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace accelerate
