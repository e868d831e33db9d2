// The values with which a sharded model starts. They lie in memory, maybe on another device than
// the model computes on, or were deferred by init_empty_weights().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// The tensors of a model that every rank has whole.
struct WholeTensors {
  std::vector<NamedTensor> parameters;  ///< Ignored parameters: each rank's own.
  std::vector<NamedTensor> buffers;
};
[[nodiscard]] WholeTensors whole_tensors(const ModuleView& view, const Units& units);

struct ValuesOptions {
  c10::Device device;        ///< Where the model computes.
  bool from_rank_0 = false;  ///< Units and buffers get rank 0's values; others need none.
};

/// Throws UsageError on all ranks when a rank needs the values of a tensor that has no memory and
/// no known values. The error names the rank and its first such tensor. [collective]
void require_values(Communicator& ranks, const Units& units, const WholeTensors& whole,
                    const ValuesOptions& options);

/// Gives this rank its slice of the unit's values. [collective when the values are rank 0's]
void fill_slice(Communicator& ranks, Unit& unit, const ValuesOptions& options);

/// Gives the tensors of `whole` memory on the device, and values; they stay the same tensors.
/// [collective]
void take_over(Communicator& ranks, const WholeTensors& whole, const ValuesOptions& options);

/// Remembers the memory in which leaves lay before they were sharded, without keeping it alive.
class FormerMemory {
 public:
  explicit FormerMemory(const Units& units);
  /// Returns the names of parameters whose former memory is still held by a tensor that is not in
  /// `whole`, such as a view.
  [[nodiscard]] std::vector<std::string> still_held(const WholeTensors& whole) const;

 private:
  std::vector<std::pair<std::string, c10::weak_intrusive_ptr<c10::StorageImpl>>> places_;
};

}  // namespace accelerate::detail
