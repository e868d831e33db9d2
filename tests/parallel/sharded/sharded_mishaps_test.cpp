// What one rank of a sharded training does alone, and what the others learn when it fails.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/fails_in_backward.h"
#include "tests/parallel/sharded/sharded_rank.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_says;
using testing::FailsInBackward;
using testing::message_of;
using Rank = testing::ShardedRank;
using testing::plugin_of;
using testing::ShardedNet;
using testing::ShardedNetOptions;

class ShardedMishaps : public testing::TwoShardedRanks {};

TEST_P(ShardedMishaps, OneRankMayLookAtAParameterWhereOthersNeedNotTakePart) {
  on_two_ranks([this](Rank& rank) {
    rank.step();
    const auto norm = [&] { return rank.net->blocks->at(1)->up->weight.norm().item<float>(); };
    if (is_one_sided()) {
      if (rank.index() == 0) {
        EXPECT_GT(norm(), 0);
      }
    } else if (rank.index() == 0) {
      expect_says(message_of<c10::Error>([&] { (void)norm(); }),
                  {"'block1.up.weight' of unit 'block1'", "rank 0", "summon_full_params"});
    }
    rank.step();
  });
}

// Where gathering takes all ranks, the others are through already: they say so.
TEST_P(ShardedMishaps, ARankThatRunsMoreOfTheModelThanTheOthersIsTold) {
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.fsdp_plugin = plugin_of(GetParam()), .communicator = comm});
    ShardedNet net(ShardedNetOptions{.has_branch = true});
    auto model = accelerator.prepare(net);
    const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
    const torch::NoGradGuard no_grad;
    const auto run = [&](bool takes_branch) { (void)model(x, takes_branch); };
    for (int i = 0; i < 2; ++i) run(false);
    const bool takes_more = comm->rank() == 0;
    if (is_one_sided()) {
      EXPECT_NO_THROW(run(takes_more));
      return;
    }
    expect_says(message_of<UsageError>([&] { run(takes_more); }),
                {"rank 0 is about to gather unit 'branch'", "rank 1 is through"});
    EXPECT_NO_THROW(run(true)) << "the model is usable";
  });
}

// Forwards are the same on all ranks; the loss of one may leave out a part of them.
struct RankWithBranch {
  RankWithBranch(const std::shared_ptr<Communicator>& comm, FullyShardedDataParallelPlugin plugin)
      : accelerator({.fsdp_plugin = std::move(plugin), .communicator = comm}) {}

  void step(bool uses_all) {
    const auto x = torch::ones({2, ShardedNet::Impl::kWidth});
    const auto all = model(x, true), some = model(x, false);
    accelerator.backward((uses_all ? all * some : some).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  // Of a step in which another rank expects more, or this one more than another.
  void expect_refusal(bool uses_all) {
    try {
      step(uses_all);
      ADD_FAILURE() << "rank " << accelerator.process_index() << " went on";
    } catch (const Error& error) {
      expect_says(describe(error), {"unit 'branch'"});
      is_told_first = dynamic_cast<const UsageError*>(&error) != nullptr;
    }
  }

  Accelerator accelerator;
  ShardedNet net{ShardedNetOptions{.has_branch = true}};
  torch::optim::SGD sgd{net->parameters(), 0.1};
  Prepared<ShardedNet> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
  bool is_told_first = false;
};

TEST_P(ShardedMishaps, ARankThatAloneHasGradientsOfAUnitIsNoReasonToWait) {
  run_two([&](const std::shared_ptr<Communicator>& comm) {
    RankWithBranch rank(comm, plugin_of(GetParam()));
    rank.step(true);
    if (is_one_sided()) {
      EXPECT_NO_THROW(rank.step(comm->rank() == 0));
      return;
    }
    rank.expect_refusal(comm->rank() == 0);
    EXPECT_EQ(rank.is_told_first, comm->rank() == 1);
  });
}

// A copy of the model gathers by itself: it may leave out what the other uses, all of it together.
TEST(ShardedGroupMishaps, ARankThatAloneInItsCopyHasGradientsOfAUnitIsNoReasonToWait) {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = ShardingStrategy::HYBRID_SHARD;
  plugin.shard_group_size = 2;
  const auto body = [&plugin](const std::shared_ptr<Communicator>& comm) {
    RankWithBranch rank(comm, plugin);
    rank.step(true);
    EXPECT_NO_THROW(rank.step(comm->rank() < 2));
    rank.expect_refusal(comm->rank() == 2);
    EXPECT_EQ(rank.is_told_first, comm->rank() == 3);
  };
  testing::run_ranks_shared(4, body, {.engine = testing::Engine::gloo});
}

enum class Moment { before_all_units, between_units, after_all_units };

// The root stays from the forward to the backward.
struct Fragile : torch::nn::Module {
  void pass(Moment moment) const {
    if (fails_at == moment) throw std::runtime_error("out of luck");
  }
  at::Tensor forward(const at::Tensor& x) {
    pass(Moment::before_all_units);
    const auto first = a(x) * scale;
    pass(Moment::between_units);
    const auto last = c(b(first));
    pass(Moment::after_all_units);
    return last;
  }
  at::Tensor scale = register_parameter("scale", torch::ones({4}));
  testing::Block a = register_module("a", testing::Block(4));
  testing::Block b = register_module("b", testing::Block(4));
  testing::Block c = register_module("c", testing::Block(4));
  std::optional<Moment> fails_at;
};

struct FragileRank {
  FragileRank(const std::shared_ptr<Communicator>& comm, ShardingStrategy strategy)
      : accelerator({.fsdp_plugin = plugin_of(strategy), .communicator = comm}) {}

  static FullyShardedDataParallelPlugin plugin_of(ShardingStrategy strategy) {
    auto plugin = testing::wrapping_blocks();
    plugin.sharding_strategy = strategy;
    return plugin;
  }
  void run(bool trains) {
    const at::AutoGradMode mode(trains);
    const auto loss = model(torch::ones({1, 4})).sum();
    if (!trains) return;
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  // A batch in whose forward rank 1 fails.
  void lose_one(bool trains, Moment moment) {
    if (accelerator.process_index() == 1) {
      net.fails_at = moment;
      EXPECT_THROW(run(trains), std::runtime_error);
      net.fails_at = std::nullopt;
    } else {
      expect_says(message_of<CommError>([&] { run(trains); }),
                  {"rank 1 left its forward by an exception"});
    }
  }

  Accelerator accelerator;
  Fragile net;
  torch::optim::SGD sgd{net.parameters(), 0.1};
  Prepared<Fragile*> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
};

class ForwardsThatOneRankLeaves : public ::testing::TestWithParam<ShardingStrategy> {};

// The others lose the same batch and no other, whatever they know of the order of units.
TEST_P(ForwardsThatOneRankLeaves, CostTheOthersThatBatchAlone) {
  const auto body = [](const std::shared_ptr<Communicator>& comm) {
    for (const bool trains : {false, true}) {
      for (const auto moment :
           {Moment::before_all_units, Moment::between_units, Moment::after_all_units}) {
        FragileRank rank(comm, GetParam());
        for (int lost = 0; lost < 2; ++lost) rank.lose_one(trains, moment);
        for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(rank.run(trains));
        for (int lost = 0; lost < 2; ++lost) rank.lose_one(trains, moment);
        EXPECT_NO_THROW(rank.run(trains));
      }
    }
  };
  testing::run_ranks_shared(2, body, {.engine = testing::Engine::gloo});
}

INSTANTIATE_TEST_SUITE_P(Strategies, ForwardsThatOneRankLeaves,
                         ::testing::Values(ShardingStrategy::FULL_SHARD,
                                           ShardingStrategy::SHARD_GRAD_OP));

// Over messages nothing else tells: the slices of the ranks would be of different steps.
TEST(ShardedGroupMishaps, ARankThatSkipsOrRepeatsAStepIsNamedWithItsCount) {
  const testing::TemporaryFolder home;
  const auto body = [&home](const std::shared_ptr<Communicator>& comm) {
    Rank rank(comm, {"", testing::Engine::gloo, FullParametersHome::gathered},
              ShardedNet(ShardedNetOptions{}));
    const auto expect_refusal = [](const std::string& counts, const std::function<void()>& call) {
      expect_says(message_of<UsageError>(call), {"rank 0 has made ", counts, "load_state()"});
    };
    rank.step();
    const auto state = rank.accelerator.save_state(home.path() / "state");
    for (const bool repeats : {false, true}) {
      const std::string counts =
          repeats ? "3 steps and rank 1 has made 4 steps" : "2 steps and rank 1 has made 1 step ";
      rank.accelerator.backward(rank.loss());
      if (comm->rank() == 0 || repeats) rank.optimizer.step();
      if (comm->rank() == 1 && repeats) rank.optimizer.step();
      rank.optimizer.zero_grad();
      expect_refusal(counts, [&] { (void)rank.model.summon_full_params(); });
      expect_refusal(counts, [&] { rank.accelerator.save_model(rank.model, home.path() / "out"); });
      expect_refusal(counts, [&] { (void)rank.accelerator.get_state_dict(rank.model); });
      expect_refusal(counts, [&] { rank.accelerator.save_state(home.path() / "other"); });
      for (int i = 0; i < 2; ++i) expect_refusal(counts, [&] { rank.step(); });
      rank.accelerator.load_state(state);
      for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(rank.step());
    }
  };
  testing::run_ranks_shared(2, body, {.engine = testing::Engine::gloo});
}

// It must not change which units that rank lets go in the next pass.
TEST_P(ShardedMishaps, OneRankMayReadWhatIsThereBetweenPasses) {
  on_two_ranks([](Rank& rank) {
    for (int i = 0; i < 3; ++i) {
      const auto loss = rank.loss();
      if (rank.index() == 0) {
        try {
          (void)rank.net->blocks->at(1)->up->weight.norm();
        } catch (const c10::Error&) {  // It need not be there.
        }
      }
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(rank.loss().isfinite().item<bool>());
    }
    rank.step();
  });
}

// The same on all ranks, in forward: the next step is as if nothing had been.
TEST_P(ShardedMishaps, AnExceptionInForwardLeavesAUsableModel) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    const auto good = std::exchange(rank.x, torch::ones({2, 3}));
    EXPECT_THROW((void)rank.loss(), c10::Error);
    rank.x = good;
    for (int i = 0; i < 2; ++i) rank.step();
    EXPECT_TRUE(rank.loss().isfinite().item<bool>());
  });
}

TEST_P(ShardedMishaps, AnExceptionInTheBackwardOfOneRankReachesTheOthers) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    auto loss = rank.loss();
    if (rank.index() == 1) loss = FailsInBackward::apply(loss);
    try {
      rank.accelerator.backward(loss);
      FAIL() << "rank " << rank.index() << " went on";
    } catch (const CommError& error) {
      EXPECT_EQ(rank.index(), 0);
      expect_says(describe(error), {"ran out of luck"});
    } catch (const std::exception& error) {
      EXPECT_EQ(rank.index(), 1) << error.what();
    }
  });
}

TEST_P(ShardedMishaps, ARankThatLeavesEarlyIsAnErrorForTheOthers) {
  on_two_ranks([](Rank& rank) {
    rank.step();
    if (rank.index() == 1) return;
    EXPECT_THROW(for (int i = 0; i < 3; ++i) rank.step(), CommError);
  });
}

// An optimizer of the user's that takes a closure as often as it likes, and may fail.
struct Plain : torch::optim::SGD {
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override {
    if (fails) throw std::out_of_range("the schedule of rank 1 ran out");
    return SGD::step(closure);
  }
  bool fails = false;
};

TEST_P(ShardedMishaps, AStepWithAClosureReachesAllRanks) {
  register_elementwise_optimizer<Plain>();
  on_two_ranks([](Rank& rank) {
    const auto loss = [&] { return rank.loss().item<double>(); };
    torch::optim::SGDOptions options(0.1);
    Plain plain(rank.net->parameters(), options);
    auto optimizer = rank.accelerator.prepare(plain);
    const double before = loss();
    optimizer.step([&] {
      optimizer.zero_grad();
      const auto value = rank.loss();
      rank.accelerator.backward(value);
      return value;
    });
    EXPECT_LT(loss(), before);
    rank.accelerator.wait_for_everyone();
  });
}

TEST_P(ShardedMishaps, AnExceptionInTheUpdateOfOneRankReachesTheOthers) {
  register_elementwise_optimizer<Plain>();
  on_two_ranks([](Rank& rank) {
    Plain plain(rank.net->parameters(), torch::optim::SGDOptions(0.1));
    rank.optimizer = rank.accelerator.prepare(plain);
    rank.step();
    if ((plain.fails = rank.index() == 1)) {
      EXPECT_THROW(rank.step(), std::out_of_range);
      return;
    }
    // Where units are gathered by collectives the next forward is the first to need rank 1.
    expect_says(message_of<CommError>([&] { rank.step(), rank.step(); }), {"schedule", "ran out"});
  });
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedMishaps, testing::sharded_places(), testing::kNameOfPlace);

}  // namespace
}  // namespace accelerate
