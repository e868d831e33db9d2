// Steps LibTorch's SGD, Adam, AdamW and Adagrad by fused kernels, on the optimizer's state.
#pragma once

#include <memory>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// Steps of an optimizer whose kernels a graph of the device repeats. A graph repeats nothing of
/// what the CPU does, so each replay begins with advance(), which does the CPU's part.
class FusedRecording {
 public:
  FusedRecording() = default;
  virtual ~FusedRecording() = default;
  FusedRecording(const FusedRecording&) = delete;
  FusedRecording& operator=(const FusedRecording&) = delete;

  /// Sets what the first replay reads. That step has been counted while it was recorded.
  virtual void begin() = 0;
  /// Whether groups, their options but the rate, parameters and state are still those that were
  /// recorded, and parameters of one kernel call still have one step number.
  [[nodiscard]] virtual bool holds(torch::optim::Optimizer& optimizer) const = 0;
  /// Counts a step, and tells the kernels its number and the groups' present rates.
  virtual void advance(torch::optim::Optimizer& optimizer) = 0;
  /// Takes the count of the step back that was recorded and will not be made.
  virtual void take_back(torch::optim::Optimizer& optimizer) = 0;
};

/// Replaces step() of one optimizer. The optimizer's data (options of the groups, typed state of
/// the parameters) stays the only source: each step reads it anew, and writes it where torch::optim
/// writes it. So steps of both kinds may alternate. Rates, groups, loaded state and frozen
/// parameters may change at any time. Holds no gradient between steps.
///
/// Memory for Adam's moments on the CPU is reserved before the first step, beside the parameters,
/// and filled in that step. If the first step allocated it, the moments would take the place of
/// that step's activations, and later steps would need more memory.
class FusedStep {
 public:
  /// Returns null unless `optimizer` is exactly one of the four classes: a derived class may have
  /// another step.
  [[nodiscard]] static std::unique_ptr<FusedStep> of(const torch::optim::Optimizer& optimizer);

  FusedStep() = default;
  virtual ~FusedStep() = default;
  FusedStep(const FusedStep&) = delete;
  FusedStep& operator=(const FusedStep&) = delete;

  /// Steps on the gradients that exist. Gradients that no kernel takes (sparse, complex, 16-bit,
  /// transposed, …) are left to the optimizer's step(). `optimizer` has the type that of() saw.
  /// Cost: beside the kernels, a fraction of a microsecond per parameter, and no allocation once
  /// the state exists. Parameters whose state lives in a store are stepped last, in the order of
  /// its files, as for_each_slice() brings them.
  virtual void run(torch::optim::Optimizer& optimizer) = 0;
  /// Frees reserved memory that no step has filled, for parameters that have become shards.
  virtual void drop_places() = 0;

  // While a step is recorded, run() lets the kernels read step numbers and rates from tensors.

  /// From now on run() records.
  virtual void begin_recording(const torch::optim::Optimizer& optimizer) = 0;
  /// Ends recording. Returns null if the steps since begin_recording() cannot be repeated: a step
  /// made the state that later ones change, or gradients were left to the optimizer's step(). Their
  /// step numbers have been taken back then. Null, too, if nothing is being recorded.
  [[nodiscard]] virtual std::unique_ptr<FusedRecording> end_recording(
      torch::optim::Optimizer& optimizer) = 0;
};

}  // namespace accelerate::detail
