// Goes on training while some ranks have run out of batches. Such a rank takes part in the
// collectives of the other ranks ("shadows" them) until all ranks have run out. Then all ranks get
// the model of a rank that was among the last. Gradients are divided by the size of the whole group
// throughout, as upstream does by default. Source of the idea:
// torch/distributed/algorithms/join.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"

namespace accelerate {

/// Calls on each rank: run_backward() for each batch, then finish() once. Until finish() returns no
/// other collective may run on the group, because ranks that have finished would not take part in
/// it. Throws CommError as any collective does.
class JoinedInputs {
 public:
  /// `engines`: the models to be trained, in the same order on all ranks. Local. Throws UsageError
  /// when there are none.
  JoinedInputs(std::vector<DistributedDataParallel*> engines,
               std::shared_ptr<Communicator> communicator);

  /// Tells the other ranks which models take part, then calls accelerate::run_backward over
  /// `engines`. [collective] Throws UsageError on all ranks when they disagree about which models
  /// this backward reaches. Throws UsageError on this rank when it reaches a model that the
  /// constructor was not given. Cost: one all-reduce of a few integers for each backward that
  /// communicates.
  void run_backward(const std::vector<DistributedDataParallel*>& engines, BackwardPass pass,
                    const std::function<void()>& backward);

  /// Shadows the other ranks until all have called finish(). [collective] Returns the rank whose
  /// models all ranks have now; nullopt when all finished together and nothing had to be sent.
  std::optional<int> finish();

 private:
  struct Announcement;
  [[nodiscard]] Announcement announce(const at::Tensor& loss, bool active);
  void require_members(const std::vector<DistributedDataParallel*>& engines,
                       const at::Tensor& loss) const;
  void shadow(const Announcement& announcement);
  [[nodiscard]] std::optional<int> agree_on_last(bool is_last);

  std::vector<DistributedDataParallel*> engines_;
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace accelerate
