// What every prepared model has, whatever its type: where its tensors are, and the parallel engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

class ModelCore {
 public:
  /// Makes the viewed module a replica of one model. [collective] `module` is its address, by which
  /// a second prepare() finds it.
  ModelCore(const void* module, ModuleView view, std::shared_ptr<Communicator> communicator,
            const DistributedDataParallelKwargs& kwargs);

  /// To be called before the module's forward.
  void before_forward();

  [[nodiscard]] const void* module() const { return module_; }
  [[nodiscard]] const ModuleView& view() const { return view_; }
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  [[nodiscard]] DistributedDataParallel& parallel() { return parallel_; }

 private:
  const void* module_;
  ModuleView view_;
  DistributedDataParallel parallel_;
};

}  // namespace accelerate::detail
