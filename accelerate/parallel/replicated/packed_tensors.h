// Packs many tensors into a few, to send a whole model in few messages.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Copies of `tensors` side by side. Each flat tensor holds one dtype and device and is closed by
/// the tensor with which it reaches 25 MiB. All ranks with equal tensors pack in the same order.
class PackedTensors {
 public:
  explicit PackedTensors(const std::vector<at::Tensor>& tensors);

  /// Starts to replace the copies by those of rank `source`; finished after wait(). [collective]
  void broadcast(Communicator& communicator, int source);
  /// Starts to replace the copies of floating and complex tensors by the mean over the ranks;
  /// finished after wait(). Other copies stay this rank's own. [collective]
  void average(Communicator& communicator);
  void wait();

  /// Writes the packed values into the tensors that differ from them; a tensor that is equal keeps
  /// its version. To be called after wait().
  void store();

 private:
  struct Part {
    std::vector<at::Tensor> tensors;
    at::Tensor flat;
    Work work;
  };
  std::vector<Part> parts_;
};

}  // namespace accelerate::detail
