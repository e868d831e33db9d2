// What every prepared model has, whatever its type: where its tensors are, the parallel engine, and
// the type that its forward computes in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/precision/autocast.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// How forwards compute: as they are, or under autocast on `device`.
struct ForwardPrecision {
  std::optional<at::ScalarType> dtype = std::nullopt;
  c10::DeviceType device = c10::DeviceType::CPU;
  AutocastKwargs autocast = {};
};

class ModelCore {
 public:
  /// Makes the viewed module a replica of one model. [collective] `module` is its address, by which
  /// a second prepare() finds it.
  ModelCore(const void* module, ModuleView view, std::shared_ptr<Communicator> communicator,
            const DistributedDataParallelKwargs& kwargs, const ForwardPrecision& precision);

  /// To be called before the module's forward, which is then to run inside autocast().
  void before_forward();
  [[nodiscard]] AutocastScope autocast() const {
    return {precision_.device, precision_.dtype, precision_.autocast};
  }
  /// Whether outputs of the forward are to be converted back to fp32.
  [[nodiscard]] bool native_amp() const { return precision_.dtype.has_value(); }

  [[nodiscard]] const void* module() const { return module_; }
  [[nodiscard]] const ModuleView& view() const { return view_; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  [[nodiscard]] DistributedDataParallel& parallel() { return parallel_; }

  /// How many SyncBatchNorm layers the module has; unset until they have been told their group.
  [[nodiscard]] const std::optional<std::size_t>& sync_batch_norms() const {
    return sync_batch_norms_;
  }
  void set_sync_batch_norms(std::size_t count) { sync_batch_norms_ = count; }

 private:
  const void* module_;
  ModuleView view_;
  ForwardPrecision precision_;
  DistributedDataParallel parallel_;
  std::optional<std::size_t> sync_batch_norms_;
};

}  // namespace accelerate::detail
