// Two ranks that train a sharded net, wherever whole parameters live, and what they are told.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/sharded_places.h"
#include "tests/support/errors.h"

namespace accelerate::testing {

/// A rank that trains a sharded net.
struct ShardedRank {
  ShardedRank(const std::shared_ptr<Communicator>& comm, const ShardedPlace& place,
              ShardedNet trained)
      : accelerator({.fsdp_plugin = plugin_of(place), .communicator = comm}),
        net(std::move(trained)) {}

  [[nodiscard]] at::Tensor loss() { return model(x, false).square().mean(); }
  void step() {
    accelerator.backward(loss());
    optimizer.step();
    optimizer.zero_grad();
  }
  [[nodiscard]] int index() const { return accelerator.process_index(); }

  Accelerator accelerator;
  ShardedNet net;
  torch::optim::SGD sgd{net->parameters(), 0.1};
  Prepared<ShardedNet> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
  at::Tensor x = torch::ones({2, ShardedNet::Impl::kWidth});
};

/// Tests of two such ranks.
class TwoShardedRanks : public ::testing::TestWithParam<ShardedPlace> {
 protected:
  void on_two_ranks(const std::function<void(ShardedRank&)>& body,
                    const std::function<void(ShardedNet::Impl&)>& before = {}) {
    run_two([&](const std::shared_ptr<Communicator>& comm) {
      ShardedNet net{ShardedNetOptions{}};
      if (before) before(*net);
      ShardedRank rank(comm, GetParam(), net);
      body(rank);
    });
  }
  void run_two(const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
    run_ranks_at(GetParam(), 2, body);
  }
  [[nodiscard]] bool is_one_sided() const { return GetParam().engine == Engine::shared_memory; }
  [[nodiscard]] bool gathers() const { return GetParam().home == FullParametersHome::gathered; }
};

/// Every part is in `message`.
inline void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
}

}  // namespace accelerate::testing
