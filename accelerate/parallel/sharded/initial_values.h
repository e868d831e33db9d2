// The values with which a sharded model starts: in memory, on another device than it computes on,
// or noted by init_empty_weights().
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

/// `leaf`, or, if it has no memory, what its constructor would have put there, in memory of its
/// own. Throws UsageError when nobody knows.
[[nodiscard]] at::Tensor initial_value(const at::Tensor& leaf);

/// What of a model every rank has whole.
struct WholeTensors {
  std::vector<NamedTensor> parameters;  ///< Ignored ones: each rank's own.
  std::vector<NamedTensor> buffers;
};
[[nodiscard]] WholeTensors whole_tensors(const ModuleView& view, const Units& units);

struct ValuesOptions {
  c10::Device device;        ///< Where the model computes.
  bool from_rank_0 = false;  ///< Parameters in units and buffers are rank 0's; others need none.
};

/// Throws UsageError on all ranks, which names the rank and its first tensor without memory whose
/// values are needed and that nobody knows. [collective]
void require_values(Communicator& ranks, const Units& units, const WholeTensors& whole,
                    const ValuesOptions& options);

/// Gives this rank its slice of the unit's values. [collective when they are rank 0's]
void fill_slice(Communicator& ranks, Unit& unit, const ValuesOptions& options);

/// Gives `whole` memory on the device, and values; the tensors stay the same. [collective]
void take_over(Communicator& ranks, const WholeTensors& whole, const ValuesOptions& options);

/// The memory in which leaves lay before they were sharded, which it does not keep.
class FormerMemory {
 public:
  explicit FormerMemory(const Units& units);
  /// Names of parameters where something lies still that is not among `whole`: a view of theirs.
  [[nodiscard]] std::vector<std::string> still_held(const WholeTensors& whole) const;

 private:
  std::vector<std::pair<std::string, c10::weak_intrusive_ptr<c10::StorageImpl>>> places_;
};

}  // namespace accelerate::detail
