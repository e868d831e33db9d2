// Local SGD and no_sync around the windows of a training loop, as upstream's examples have them.
#include "accelerate/parallel/replicated/local_sgd.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

// loss = weight · (rank + 1) / micro-batches, so SGD with rate 1 takes rank + 1 off the weight in
// each step.
struct LocalLoop {
  LocalLoop(const std::shared_ptr<Communicator>& comm, int micro_batches)
      : accelerator({.gradient_accumulation_steps = micro_batches, .communicator = comm}),
        mine(comm->rank() + 1.0) {
    torch::NoGradGuard no_grad;
    net->weight.fill_(10);
  }
  void micro_batch() {
    const auto window = accelerator.accumulate(model);
    accelerator.backward(model(torch::full({1, 1}, mine)).sum());
    optimizer.step();
    optimizer.zero_grad();
  }
  double weight() const { return net->weight.item<double>(); }

  Accelerator accelerator;
  double mine;
  torch::nn::Linear net{torch::nn::LinearOptions(1, 1).bias(false)};
  torch::optim::SGD sgd{net->parameters(), 1.0};
  Prepared<torch::nn::Linear> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
};

class Windows : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OfMicroBatches, Windows, ::testing::Values(1, 2));

TEST_P(Windows, InsideLocalSGDStayLocalUntilItAverages) {
  run_ranks_shared(2, [n = GetParam()](const std::shared_ptr<Communicator>& comm) {
    LocalLoop loop(comm, n);
    {
      LocalSGD local_sgd(loop.accelerator, loop.model, 100);
      for (int i = 0; i < 2 * n; ++i) {
        loop.micro_batch();
        local_sgd.step();
      }
      EXPECT_EQ(loop.weight(), 10 - 2 * loop.mine) << "on its own";
    }
    EXPECT_EQ(loop.weight(), 10 - 2 * 1.5) << "averaged at the end";
    for (int i = 0; i < n; ++i) loop.micro_batch();
    EXPECT_EQ(loop.weight(), 10 - 3 * 1.5) << "gradients are synchronised again";
  });
}

TEST_P(Windows, InsideNoSyncStayLocal) {
  run_ranks_shared(2, [n = GetParam()](const std::shared_ptr<Communicator>& comm) {
    LocalLoop loop(comm, n);
    {
      const auto scope = loop.accelerator.no_sync(loop.model);
      for (int i = 0; i < n; ++i) loop.micro_batch();
    }
    EXPECT_EQ(loop.weight(), 10 - loop.mine);
  });
}

}  // namespace
}  // namespace accelerate
