// Records the units of a model while its forward runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "accelerate/parallel/recompute/gradient_checkpointing.h"
#include "accelerate/parallel/recompute/unit_record.h"
#include "accelerate/tensor/compat/interception.h"
#include "accelerate/tensor/compat/saved_tensor_hooks.h"

namespace accelerate::detail {

/// A unit and the tensors by which it is recognised.
struct RecomputedUnit {
  std::string name;            ///< In errors: "the unit encoder.0".
  std::size_t parameters = 0;  ///< Their number.
  bool is_recomputed = false;  ///< Otherwise autograd saves in it as usual.
};

struct RecomputePlan {
  std::vector<RecomputedUnit> units{};
  /// The unit of each parameter and buffer.
  std::unordered_map<const at::TensorImpl*, std::size_t> unit_of{};
  std::unordered_set<const at::TensorImpl*> parameters{};
  GradientCheckpointing::Keep keep = GradientCheckpointing::Keep::nothing;
  /// Inputs of units on devices of this type wait for backward in host memory.
  std::optional<c10::DeviceType> offloads_from{};
};

/// A unit begins when an operator touches one of its tensors, and lasts until one touches a tensor of
/// another unit. It begins anew when all its parameters have been touched and the first is touched
/// again.
class Recorder : public compat::Interceptor, public compat::SavedTensorPolicy {
 public:
  /// `plan` must outlive the recorder.
  explicit Recorder(const RecomputePlan& plan);
  /// Records everything as one unit of this name.
  explicit Recorder(std::string unit);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void intercept(const compat::InterceptedCall& call) override;
  [[nodiscard]] std::unique_ptr<compat::SavedTensorHooks> make_hooks() override;

 private:
  void enter_unit(c10::ArrayRef<c10::IValue> arguments);
  void touch(const at::Tensor& tensor);
  void begin_unit(std::size_t unit, const at::TensorImpl* first);
  void start_record(const std::string& unit);
  void end_record();
  void before_write(const at::Tensor& tensor);
  [[nodiscard]] bool keeps_results_of(const c10::OperatorHandle& op) const;

  const RecomputePlan* plan_ = nullptr;
  Recorder* outer_;   // Of the scope around this one.
  std::size_t unit_;  // The present one.
  const at::TensorImpl* first_ = nullptr;
  std::unordered_set<const at::TensorImpl*> touched_;  // Its parameters.
  std::shared_ptr<UnitRecord> record_;                 // Null while nothing is recorded.
};

}  // namespace accelerate::detail
