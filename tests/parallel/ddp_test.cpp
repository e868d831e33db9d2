// The replicated model: when it synchronises, and what each keyword does.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

struct Replica {
  explicit Replica(std::shared_ptr<Communicator> comm,
                   const DistributedDataParallelKwargs& kwargs = {})
      : communicator(std::move(comm)), engine(view_of(*layer), communicator, kwargs) {}

  // d(loss)/d(weight) is rank + 1 in every column.
  at::Tensor loss() {
    engine.before_forward(true);
    return layer(torch::full({1, 3}, communicator->rank() + 1.0)).sum();
  }
  void backward(const at::Tensor& loss) {
    engine.begin_backward(false);
    loss.backward();
    engine.finish_backward();
  }
  double gradient() const { return layer->weight.grad()[0][0].item<double>(); }

  std::shared_ptr<Communicator> communicator;
  torch::nn::Linear layer{torch::nn::LinearOptions(3, 1).bias(false)};
  DistributedDataParallel engine;
};

TEST(TriggerSyncInBackward, TheNextBackwardSynchronisesUnderNoSyncAndOnlyThat) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Replica replica(comm);
    replica.engine.set_synchronize(false);
    const auto first = replica.loss(), second = replica.loss(), third = replica.loss();
    replica.backward(first);
    EXPECT_EQ(replica.gradient(), comm->rank() + 1.0);
    replica.engine.trigger_sync_in_backward();
    replica.backward(second);
    EXPECT_EQ(replica.gradient(), 3.0) << "the mean of 2 and 4";
    replica.backward(third);
    EXPECT_EQ(replica.gradient(), 3.0 + comm->rank() + 1.0);
  });
}

}  // namespace
}  // namespace accelerate
