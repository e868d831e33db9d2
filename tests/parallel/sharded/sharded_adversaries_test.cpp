// Two sharded models in one loop, each in the other's graph: adversaries train what they train in
// one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks_shared;
using testing::ShardedNet;

constexpr int kAdverseSteps = 10;

struct Setting {
  std::string name;
  Engine engine;
  FullParametersHome home;
  int ranks;
  ShardingStrategy strategy = ShardingStrategy::FULL_SHARD;
};
void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name << " " << to_string(setting.strategy) << " " << setting.ranks << " ranks";
}

enum class Loop {
  in_turn,      // The critic's step on a detached fake, then the generator's through the critic.
  frozen,       // The same, with a critic that takes no gradient from the generator's loss.
  accumulates,  // Windows of two micro-batches for both.
  thaws,        // The same, the generator first, while the critic is frozen.
  one_loss,     // One backward for both.
  apart         // On half of the ranks the generator takes its branch, on the others it does not.
};

FullyShardedDataParallelPlugin plugin_of(const Setting& setting) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = setting.strategy;
  plugin.full_parameters = setting.home;
  return plugin;
}

// Generator and critic with an optimizer each.
class Adversaries {
 public:
  Adversaries(std::shared_ptr<Communicator> comm, Loop loop,
              const std::optional<FullyShardedDataParallelPlugin>& plugin)
      : loop_(loop),
        comm_(std::move(comm)),
        accelerator_({.gradient_accumulation_plugin =
                          GradientAccumulationPlugin{.num_steps = has_windows(loop) ? 2 : 1},
                      .fsdp_plugin = plugin,
                      .communicator = comm_}) {}

  // The weights of both at the end.
  std::vector<at::Tensor> train() {
    for (int step = 0; step < kAdverseSteps; ++step) {
      if (loop_ == Loop::one_loss) {
        step_together(step);
      } else if (loop_ == Loop::thaws) {
        step_generator_first(step);
      } else {
        step_in_turn(step);
      }
    }
    const auto whole_generator = g_.summon_full_params({.writeback = false});
    const auto whole_critic = c_.summon_full_params({.writeback = false});
    std::vector<at::Tensor> weights;
    for (const auto& model : {g_, c_}) {
      for (const auto& leaf : model.parameters()) weights.push_back(leaf.detach().clone());
    }
    return weights;
  }

 private:
  static bool has_windows(Loop loop) { return loop == Loop::accumulates || loop == Loop::thaws; }

  static ShardedNet net() {
    ShardedNet made{testing::ShardedNetOptions{.blocks = 2, .has_branch = true}};
    made->to(torch::kDouble);
    return made;
  }

  // The same for all rows of the batch, whoever has them: with Loop::apart rows differ by half.
  at::Tensor fake(const at::Tensor& z) {
    if (loop_ != Loop::apart) return g_(z, true);
    if (comm_->size() > 1) return g_(z, comm_->rank() < comm_->size() / 2);
    const auto halves = z.chunk(2);
    return torch::cat({g_(halves[0], true), g_(halves[1], false)});
  }
  at::Tensor score(const at::Tensor& x) { return c_(x, false).tanh().mean(); }

  void step_in_turn(int step) {
    const auto z = testing::rows_of(step, *comm_);
    const auto window = accelerator_.accumulate(g_, c_);
    accelerator_.backward(score(fake(z).detach()) - score(z.flip(1)));
    update(c_, c_optimizer_);
    if (loop_ == Loop::frozen) freeze(true);
    accelerator_.backward(-score(fake(z)));
    if (loop_ == Loop::frozen) freeze(false);
    update(g_, g_optimizer_);
    if (loop_ != Loop::frozen && accelerator_.sync_gradients()) c_optimizer_.zero_grad();
  }

  // What the critic has kept of the window's first half outlasts that it is frozen in the second.
  void step_generator_first(int step) {
    const auto z = testing::rows_of(step, *comm_);
    const auto window = accelerator_.accumulate(g_, c_);
    freeze(true);
    accelerator_.backward(-score(fake(z)));
    freeze(false);
    accelerator_.backward(score(fake(z).detach()) - score(z.flip(1)));
    update(c_, c_optimizer_);
    update(g_, g_optimizer_);
  }

  void step_together(int step) {
    const auto z = testing::rows_of(step, *comm_);
    accelerator_.backward(score(z.flip(1)) - score(fake(z)));
    update(c_, c_optimizer_);
    update(g_, g_optimizer_);
  }

  void update(Prepared<ShardedNet>& model, AcceleratedOptimizer& optimizer) {
    if (accelerator_.sync_gradients()) accelerator_.clip_grad_norm_(model.parameters(), 0.25);
    optimizer.step();
    optimizer.zero_grad();
  }

  void freeze(bool on) {
    for (auto& leaf : c_.parameters()) leaf.set_requires_grad(!on);
  }

  Loop loop_;
  std::shared_ptr<Communicator> comm_;
  Accelerator accelerator_;
  ShardedNet generator_ = net(), critic_ = net();
  torch::optim::Adam g_adam_{generator_->parameters(), 0.01};
  torch::optim::SGD c_sgd_{critic_->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)};
  Prepared<ShardedNet> g_ = accelerator_.prepare(generator_);
  Prepared<ShardedNet> c_ = accelerator_.prepare(critic_);
  AcceleratedOptimizer g_optimizer_ = accelerator_.prepare(g_adam_);
  AcceleratedOptimizer c_optimizer_ = accelerator_.prepare(c_sgd_);
};

class ShardedAdversaries : public ::testing::TestWithParam<Setting> {
 protected:
  static void expect_weights_of_one_process(Loop loop) {
    const auto expected = Adversaries(single_communicator(), loop, std::nullopt).train();
    std::vector<at::Tensor> found;
    run_ranks_shared(GetParam().ranks,
                     [&](const std::shared_ptr<Communicator>& comm) {
                       auto weights = Adversaries(comm, loop, plugin_of(GetParam())).train();
                       if (comm->rank() == 1) found = std::move(weights);
                     },
                     {.engine = GetParam().engine});
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT((found[i] - expected[i]).abs().max().item<double>(), 1e-9) << i;
    }
  }
};

TEST_P(ShardedAdversaries, InTurnTrainWhatOneProcessTrains) {
  expect_weights_of_one_process(Loop::in_turn);
}

TEST_P(ShardedAdversaries, WithACriticThatIsFrozenMeanwhile) {
  expect_weights_of_one_process(Loop::frozen);
}

TEST_P(ShardedAdversaries, InWindowsOfSeveralMicroBatches) {
  expect_weights_of_one_process(Loop::accumulates);
}

TEST_P(ShardedAdversaries, InWindowsWithACriticThatIsFrozenMeanwhile) {
  expect_weights_of_one_process(Loop::thaws);
}

TEST_P(ShardedAdversaries, WithOneLossForBoth) {
  expect_weights_of_one_process(Loop::one_loss);
}

// Ranks that run different parts of a model: nobody waits for a gradient that is not computed.
// Gathering by collectives needs the same parts on all ranks.
class ApartAdversaries : public ShardedAdversaries {};

TEST_P(ApartAdversaries, WhereRanksTakeDifferentBranches) {
  expect_weights_of_one_process(Loop::apart);
}

const std::vector<Setting> kOneSided = {
    {"Pages", Engine::shared_memory, FullParametersHome::shared_pages, 2},
    {"Windows", Engine::shared_memory, FullParametersHome::gathered, 4},
    {"WindowsKept", Engine::shared_memory, FullParametersHome::gathered, 2,
     ShardingStrategy::SHARD_GRAD_OP}};
const std::vector<Setting> kCollective = {
    {"Collectives", Engine::gloo, FullParametersHome::gathered, 3},
    {"CollectivesKept", Engine::gloo, FullParametersHome::gathered, 2,
     ShardingStrategy::SHARD_GRAD_OP},
    {"Hierarchy", Engine::hierarchy, FullParametersHome::gathered, 4}};

const auto name_of = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(OneSided, ShardedAdversaries, ::testing::ValuesIn(kOneSided), name_of);
INSTANTIATE_TEST_SUITE_P(Collective, ShardedAdversaries, ::testing::ValuesIn(kCollective), name_of);
INSTANTIATE_TEST_SUITE_P(OneSided, ApartAdversaries, ::testing::ValuesIn(kOneSided), name_of);

}  // namespace
}  // namespace accelerate
