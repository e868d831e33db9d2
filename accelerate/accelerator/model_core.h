// What every prepared model has, whatever its type: its tensors, its parallel engine, and the type
// that its forward computes in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/parallel/parallel_model.h"
#include "accelerate/parallel/recompute/recompute.h"
#include "accelerate/tensor/compat/matrix_products.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/nested.h"
#include "accelerate/tensor/nested_operations.h"

namespace accelerate::detail {

/// How forwards compute: in the types of their inputs, or under autocast on `device`.
struct ForwardPrecision {
  std::optional<at::ScalarType> dtype = std::nullopt;
  c10::DeviceType device = c10::DeviceType::CPU;
  AutocastKwargs autocast = {};
  std::optional<at::ScalarType> input = std::nullopt;  ///< Floating inputs are cast to it.
  /// Floating outputs are cast to it; unset: 16-bit ones to fp32.
  std::optional<at::ScalarType> output = std::nullopt;
};

class ModelCore {
 public:
  /// `module` is the address of the module, by which a second prepare() finds it.
  ModelCore(const void* module, ModuleView view, ParallelModel parallel,
            const ForwardPrecision& precision);

  /// Runs `forward` (the module's) under autocast, between the engine's work before and after it.
  /// Throws what `forward` throws, or the engine's explanation of the failure.
  template <typename Forward>
  decltype(auto) run_forward(Forward&& forward) {
    before_forward();
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Forward>>) {
        compute(std::forward<Forward>(forward));
        parallel_.engine->after_forward();
      } else {
        decltype(auto) output = compute(std::forward<Forward>(forward));
        parallel_.engine->after_forward();
        return output;
      }
    } catch (...) {
      parallel_.engine->leave_forward();
      rethrow_cause();
    }
  }

  /// Whether inputs must go through input().
  [[nodiscard]] bool casts_inputs() const { return precision_.input.has_value(); }
  /// Returns `value` with its floating tensors cast to the input type.
  template <typename T>
  [[nodiscard]] decltype(auto) input(T&& value) const {
    if constexpr (Nested<std::remove_cvref_t<T>>) {
      return map_tensors(std::remove_cvref_t<T>(std::forward<T>(value)),
                         [this](const at::Tensor& tensor) { return in_input_type(tensor); });
    } else {
      return std::forward<T>(value);
    }
  }
  /// Whether outputs must go through output().
  [[nodiscard]] bool casts_outputs() const {
    return precision_.dtype.has_value() || precision_.output.has_value();
  }
  /// Returns `value` with its 16-bit tensors cast to fp32, or, if the settings name an output
  /// type, with all floating tensors cast to it.
  template <typename T>
  [[nodiscard]] T output(T value) const {
    return map_tensors(std::move(value),
                       [this](const at::Tensor& tensor) { return in_output_type(tensor); });
  }
  [[nodiscard]] at::Tensor in_input_type(const at::Tensor& tensor) const;
  [[nodiscard]] at::Tensor in_output_type(const at::Tensor& tensor) const;

  [[nodiscard]] const void* module() const { return module_; }
  [[nodiscard]] const ModuleView& view() const { return view_; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  /// Returns the tensors whose grad() is the gradient: the parameters, or this rank's parts of
  /// them.
  [[nodiscard]] std::vector<at::Tensor> gradient_holders() const;

  [[nodiscard]] const ParallelModel& parallel() const { return parallel_; }
  /// Returns the copies of a model that every rank has whole. Throws UsageError, which says that
  /// `feature` needs them, for a sharded model.
  [[nodiscard]] const std::shared_ptr<DistributedDataParallel>& replicas(
      const std::string& feature) const;

  /// The number of SyncBatchNorm layers; unset until the layers have been told their group.
  [[nodiscard]] const std::optional<std::size_t>& sync_batch_norms() const {
    return sync_batch_norms_;
  }
  void set_sync_batch_norms(std::size_t count) { sync_batch_norms_ = count; }

 private:
  template <typename Forward>
  decltype(auto) compute(Forward&& forward) const {
    const compat::MatrixProducts products;
    const AutocastScope scope(precision_.device, precision_.dtype, precision_.autocast);
    std::optional<RecomputeScope> recompute;
    if (parallel_.recompute) recompute.emplace(parallel_.recompute->plan());
    return std::forward<Forward>(forward)();
  }

  void before_forward();
  [[noreturn]] void rethrow_cause();

  const void* module_;
  ModuleView view_;
  ForwardPrecision precision_;
  ParallelModel parallel_;
  std::optional<std::size_t> sync_batch_norms_;
};

/// Returns the core of a prepared model.
template <typename Model>
std::shared_ptr<ModelCore> core_of(const Model& model) {
  if constexpr (requires { model.core(); }) {
    return model.core();
  } else {
    static_assert(kNoType<Model>,
                  "this takes a prepared model: pass what accelerator.prepare(net) returned, not "
                  "the module itself");
    return nullptr;
  }
}

/// Throws the UsageError of an empty Prepared.
[[noreturn]] void throw_not_prepared();

}  // namespace accelerate::detail
