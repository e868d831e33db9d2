// Every optimizer that may hold parts of parameters ends in the weights of one process, and so does
// one that comes with a past: prepare() cuts what it remembers.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/sharded_places.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::ShardedNet;
using testing::ShardedPlace;

constexpr int kSteps = 6;  // Under prepare().

struct Maker {
  std::string name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)> make;
};
void PrintTo(const Maker& maker, std::ostream* out) {
  *out << maker.name;
}

template <typename Optimizer, typename Options>
Maker maker_of(std::string name, const Options& options) {
  return {std::move(name), [options](const std::vector<at::Tensor>& parameters) {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<Maker> makers() {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace): a table reads well
  return {
      maker_of<SGD>("Sgd", SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.1)),
      maker_of<AdamW>("AdamW", AdamWOptions(0.01).weight_decay(0.1)),
      maker_of<Adam>("AdamAmsgrad", AdamOptions(0.01).amsgrad(true)),
      maker_of<Adagrad>("Adagrad",
                        AdagradOptions(0.05).lr_decay(0.01).initial_accumulator_value(0.1)),
      maker_of<RMSprop>("RmspropCentered", RMSpropOptions(0.005).momentum(0.9).centered(true)),
  };
}

// One process makes the steps before prepare(), or each of the ranks does, with all rows.
struct OptimizersTraining {
  const Maker& maker;
  int steps_before = 0;

  [[nodiscard]] std::vector<at::Tensor> run(
      const std::shared_ptr<Communicator>& comm,
      const std::optional<FullyShardedDataParallelPlugin>& plugin) const {
    Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
    ShardedNet net(testing::ShardedNetOptions{.blocks = 2, .frozen = true});
    net->to(at::kDouble);
    const auto inner = maker.make(net->parameters());
    for (int step = 0; step < steps_before; ++step) {
      loss_of(net, testing::rows_of(step, *single_communicator())).backward();
      inner->step();
      inner->zero_grad();
    }
    auto [model, optimizer] = accelerator.prepare(net, *inner);
    for (int step = steps_before; step < steps_before + kSteps; ++step) {
      accelerator.backward(loss_of(model, testing::rows_of(step, *comm)));
      optimizer.step();
      optimizer.zero_grad();
    }
    const auto whole = model.summon_full_params({.writeback = false});
    std::vector<at::Tensor> weights;
    for (const auto& leaf : net->parameters()) weights.push_back(leaf.detach().clone());
    return weights;
  }

  template <typename Model>
  static at::Tensor loss_of(Model& model, const at::Tensor& x) {
    return (model(x, false) - x.flip(1)).square().mean();
  }
};

class ShardedOptimizers : public ::testing::TestWithParam<std::tuple<ShardedPlace, Maker, int>> {};

TEST_P(ShardedOptimizers, EndInTheWeightsOfOneProcess) {
  const auto& [place, maker, steps_before] = GetParam();
  const OptimizersTraining training{maker, steps_before};
  const auto expected = training.run(single_communicator(), std::nullopt);
  testing::run_ranks_at(place, 3, [&](const std::shared_ptr<Communicator>& comm) {
    const auto found = training.run(comm, plugin_of(place));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT((found[i] - expected[i]).abs().max().item<double>(), 1e-10) << i;
    }
  });
}

std::string name_of(const ::testing::TestParamInfo<ShardedOptimizers::ParamType>& info) {
  const auto& [place, maker, steps_before] = info.param;
  return place.name + "_" + maker.name + (steps_before > 0 ? "_WithAPast" : "");
}

// One of the user's, with a memory that nobody else knows.
struct Remembers : torch::optim::SGD {
  using SGD::SGD;
  struct State : torch::optim::OptimizerParamState {};
};

TEST(ShardedOptimizer, WithAPastInAClassOfItsOwnIsRefused) {
  register_elementwise_optimizer<Remembers>();
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = testing::wrapping_blocks(), .communicator = comm});
    ShardedNet net{testing::ShardedNetOptions{}};
    Remembers remembers(net->parameters(), torch::optim::SGDOptions(0.1));
    remembers.state()[net->head_weight.unsafeGetTensorImpl()] =
        std::make_unique<Remembers::State>();
    EXPECT_PRED_FORMAT2(
        ::testing::IsSubstring, "before its first step",
        testing::message_of<UsageError>([&] { (void)accelerator.prepare(net, remembers); }));
  });
}

INSTANTIATE_TEST_SUITE_P(All, ShardedOptimizers,
                         ::testing::Combine(testing::sharded_places(),
                                            ::testing::ValuesIn(makers()), ::testing::Values(0, 3)),
                         name_of);

}  // namespace
}  // namespace accelerate
