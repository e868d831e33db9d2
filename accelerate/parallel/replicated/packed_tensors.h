// Many tensors as few: what is sent for a whole model at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// The tensors of `named`, each once.
[[nodiscard]] std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named);

/// Copies of `tensors` side by side, one flat tensor for each dtype and device and at most 25 MiB,
/// in an order that all ranks with equal tensors agree on.
class PackedTensors {
 public:
  explicit PackedTensors(const std::vector<at::Tensor>& tensors);

  /// [collective] Finished after wait().
  void broadcast(Communicator& communicator, int source);
  /// Of floating and complex tensors; the others stay this rank's. [collective] As broadcast.
  void average(Communicator& communicator);
  void wait();

  /// Writes the packed values into the tensors that differ from them; a tensor that is equal keeps
  /// its version. Not before wait().
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
