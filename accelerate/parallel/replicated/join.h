// Training on while some ranks have run out of batches. A rank that has runs along in the
// collectives of the others ("shadows" them) until all have; then everyone gets the model of a rank
// that was among the last. Gradients are divided by the size of the whole group throughout, as
// upstream does by default. Source of the idea: torch/distributed/algorithms/join.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"

namespace accelerate {

/// Life on each rank: run_backward() for each batch, then finish(), once. Between the two no other
/// collective may run on the group: those ranks that have finished would not take part in it.
/// Throws CommError as any collective does, UsageError as said.
class JoinedInputs {
 public:
  /// `engines`: the models to be trained, in the same order on all ranks. Local. Throws UsageError
  /// without any.
  JoinedInputs(std::vector<DistributedDataParallel*> engines,
               std::shared_ptr<Communicator> communicator);

  /// As accelerate::run_backward over `engines`, after telling the other ranks which models take
  /// part: one all-reduce of a few integers for each backward that communicates. [collective]
  /// Throws UsageError, on all ranks: they disagree which models this backward reaches; locally: it
  /// reaches a model that is not among those to be joined.
  void run_backward(const std::vector<DistributedDataParallel*>& engines, BackwardPass pass,
                    const std::function<void()>& backward);

  /// Shadows the others until all ranks have come here. [collective] Returns the rank whose models
  /// everyone has now, or nothing when all came at once and nothing had to be sent.
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
