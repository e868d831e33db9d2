// The mistakes that C++ invites because the old names stay in scope beside the prepared ones, and
// what a single rank says of those that only a group would suffer from.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/replicated/write_watch.h"
#include "tests/parallel/sharded/sharded_rank.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_says;
using testing::LogCapture;
using testing::make_net;
using testing::message_of;
using testing::Net;
using testing::run_ranks_shared;
using testing::samples;

constexpr const char* kDebug = "ACCELERATE_DEBUG_MODE";

// --- writes between micro-batches ----------------------------------------------------------------

// A rank that trains, three micro-batches a step; ranks have batches of their own.
struct MisusedLoop {
  explicit MisusedLoop(std::shared_ptr<Communicator> comm, GradientAccumulationPlugin plugin = {3})
      : accelerator({.gradient_accumulation_plugin = plugin, .communicator = std::move(comm)}) {}

  void micro_batch(const std::function<void()>& after_backward = {}) {
    const auto window = accelerator.accumulate(model);
    accelerator.backward(loss());
    if (after_backward) after_backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  // Every parameter by `write`, as an optimizer or an average of weights does it.
  void write(const std::function<void(at::Tensor&)>& write) {
    const at::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) write(parameter);
  }
  void swap_weights_and_back() {
    std::vector<at::Tensor> own;
    write([&](auto& p) {
      own.push_back(p.clone());
      p.mul_(0.5);
    });
    (void)model(samples(2));
    auto next = own.begin();
    write([&](auto& p) { p.copy_(*next++); });
  }
  [[nodiscard]] at::Tensor loss() {
    return model(samples(4) * (accelerator.process_index() + 1)).square().mean();
  }
  [[nodiscard]] bool ranks_agree() {
    const auto both = accelerator.gather(net->in->weight.detach().reshape({1, -1}));
    return both[0].equal(both[-1]);
  }

  Accelerator accelerator;
  Net net = make_net();
  torch::optim::SGD sgd{net->parameters(), 0.1};
  Prepared<Net> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
};

void on_two_ranks(const std::function<void(MisusedLoop&)>& body,
                  GradientAccumulationPlugin plugin = {3}) {
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    MisusedLoop loop(comm, plugin);
    body(loop);
  });
}

TEST(RawOptimizer, AStepOfItUnderAccumulateIsRefusedBeforeRanksTrainOn) {
  on_two_ranks([](MisusedLoop& loop) {
    const auto raw_step = [&] {
      loop.sgd.step();
      loop.sgd.zero_grad();
    };
    loop.micro_batch(raw_step);
    EXPECT_FALSE(loop.ranks_agree());
    const auto text = message_of<UsageError>([&] { loop.micro_batch(raw_step); });
    expect_says(text, {"'in.weight'", "not of the original", "sync_gradients()",
                       "rank " + std::to_string(loop.accelerator.process_index())});
  });
}

TEST(RawOptimizer, AStepOfItBetweenTwoScopesIsRefusedToo) {
  on_two_ranks([](MisusedLoop& loop) {
    loop.micro_batch();
    loop.micro_batch();
    loop.sgd.step();
    expect_says(message_of<UsageError>([&] { loop.micro_batch(); }), {"'in.weight'"});
  });
}

TEST(RawOptimizer, MayStepOnGradientsThatWereSynchronised) {
  const auto step_by_hand = [](MisusedLoop& loop, bool each) {
    for (int i = 0; i < 6; ++i) {
      loop.micro_batch([&] {
        if (!each && !loop.accelerator.sync_gradients()) return;
        loop.sgd.step();
        loop.sgd.zero_grad();
      });
      EXPECT_TRUE(loop.ranks_agree());
    }
  };
  on_two_ranks([&](MisusedLoop& loop) { step_by_hand(loop, false); });
  on_two_ranks([&](MisusedLoop& loop) { step_by_hand(loop, true); }, {1});
  on_two_ranks([&](MisusedLoop& loop) { step_by_hand(loop, true); },
               {.num_steps = 3, .sync_each_batch = true});
}

TEST(RawOptimizer, MayStepWhereABackwardWasToldToSynchronise) {
  on_two_ranks([](MisusedLoop& loop) {
    Accelerator::trigger_sync_in_backward(loop.model);
    loop.micro_batch([&] { loop.sgd.step(); });
    loop.micro_batch();
    EXPECT_TRUE(loop.ranks_agree());
  });
}

// After a step anything may be written; within a window what leaves the values as they were.
TEST(WritesToParameters, ClampsAveragesAndSwappedWeightsAreNoMisuse) {
  on_two_ranks([](MisusedLoop& loop) {
    std::vector<at::Tensor> average;
    for (auto& parameter : loop.net->parameters()) average.push_back(parameter.detach().clone());
    for (int i = 0; i < 9; ++i) {
      loop.micro_batch();
      loop.swap_weights_and_back();
      loop.write([](auto& p) { p.clamp_(-9, 9); });  // changes nothing
      if (!loop.accelerator.sync_gradients()) continue;
      loop.write([](auto& p) { p.clamp_(-0.2, 0.2); });
      auto next = average.begin();
      loop.write([&](auto& p) {
        next->lerp_(p, 0.1);
        p.copy_(*next++);
      });
    }
    EXPECT_TRUE(loop.ranks_agree());
  });
}

// Before its first backward a window has no gradients that a write could have come from.
TEST(WritesToParameters, BeforeTheFirstBackwardOfAWindowAreNoMisuse) {
  on_two_ranks([](MisusedLoop& loop) {
    for (int i = 0; i < 3; ++i) {
      const auto window = loop.accelerator.accumulate(loop.model);
      if (i == 0) loop.write([](auto& p) { p.mul_(0.5); });
      loop.accelerator.backward(loop.loss());
      loop.optimizer.step();
    }
    EXPECT_TRUE(loop.ranks_agree());
  });
}

TEST(WritesToParameters, ByThisLibraryAreNoMisuseInTheMiddleOfAWindow) {
  const testing::TemporaryFolder folder;
  on_two_ranks([&](MisusedLoop& loop) {
    for (int i = 0; i < 4; ++i) loop.micro_batch();
    loop.accelerator.save_state(folder.path() / "state");
    for (int i = 0; i < 4; ++i) loop.micro_batch();
    loop.accelerator.load_state(folder.path() / "state");
    loop.micro_batch();
    EXPECT_TRUE(loop.ranks_agree());
  });
  on_two_ranks(
      [](MisusedLoop& loop) {
        LocalSGD local(loop.accelerator, loop.model, 3);
        for (int i = 0; i < 8; ++i) {
          loop.micro_batch();
          local.step();
        }
      },
      {2});
}

// A codebook that averages move in forward, as in a VQ-VAE.
TEST(WritesToParameters, WithoutGradientsAreNoMisuse) {
  const auto parameter = torch::ones({3}, torch::requires_grad());
  const auto codebook = torch::ones({3}, torch::requires_grad());
  parameter.mutable_grad() = torch::ones({3});
  detail::WriteWatch writes({{"parameter", parameter}, {"codebook", codebook}});
  writes.watch(1);
  writes.note();
  codebook.data().mul_(2);
  EXPECT_EQ(writes.changed_in(1), std::nullopt);
  parameter.data().mul_(2);
  EXPECT_EQ(writes.changed_in(1), "parameter");
}

TEST(WritesToParameters, OfAWindowThatWasDroppedAreNoMisuse) {
  on_two_ranks([](MisusedLoop& loop) {
    loop.micro_batch();
    EXPECT_THROW(loop.micro_batch([] { throw DataError("a mishap"); }), DataError);
    loop.optimizer.zero_grad();
    loop.write([](auto& p) { p.mul_(0.5); });
    loop.micro_batch();
    EXPECT_TRUE(loop.ranks_agree());
  });
}

TEST(RawOptimizer, AStepOfItUnderAccumulateIsFoundOnOneRankInDebugMode) {
  const testing::ScopedEnv debug(kDebug, "1");
  MisusedLoop loop(single_communicator());
  const auto raw_step = [&] { loop.sgd.step(); };
  loop.micro_batch(raw_step);
  expect_says(message_of<UsageError>([&] { loop.micro_batch(raw_step); }), {"not of the original"});
}

class ShardedRawOptimizer : public testing::TwoShardedRanks {};

TEST_P(ShardedRawOptimizer, AStepOfItUnderAccumulateIsRefused) {
  on_two_ranks([](testing::ShardedRank& rank) {
    rank.accelerator.set_gradient_accumulation_steps(2);
    const auto micro_batch = [&] {
      const auto window = rank.accelerator.accumulate(rank.model);
      rank.accelerator.backward(rank.loss());
      rank.sgd.step();
      rank.sgd.zero_grad();
    };
    micro_batch();
    micro_batch();
    expect_says(message_of<UsageError>(micro_batch),
                {"changed its shard of", "not of the original", "prepare() returned"});
  });
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedRawOptimizer, testing::sharded_places(),
                         testing::kNameOfPlace);

// --- forwards past the prepared model ------------------------------------------------------------

TEST(ForwardOfTheModule, IsNamedInTheErrorOfSeveralRanks) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(testing::on(comm));
    auto model = accelerator.prepare(make_net());
    const auto loss = model->forward(samples(2)).mean();
    expect_says(message_of<UsageError>([&] { accelerator.backward(loss); }),
                {"model->forward(x)", "model(x)", "model.forward(x)"});
  });
}

// With what a rank warns of when it trains alone, three steps through `forward`.
std::vector<std::string> warnings_of(const std::function<at::Tensor(Prepared<Net>&)>& forward) {
  const LogCapture log;
  Accelerator accelerator(
      {.mixed_precision = MixedPrecision::bf16, .communicator = single_communicator()});
  auto model = accelerator.prepare(make_net());
  for (int i = 0; i < 3; ++i) accelerator.backward(forward(model).mean());
  return log.lines();
}

TEST(ForwardOfTheModule, IsNoticedOnOneRankOnce) {
  const auto lines = warnings_of([](auto& model) { return model->forward(samples(2)); });
  ASSERT_EQ(lines.size(), 1U);
  expect_says(lines[0], {"WARNING", "model->forward(x)", "without mixed precision", "model(x)"});
}

TEST(ForwardOfTheModule, IsNoticedOnOneRankAlsoAfterTheRightOne) {
  int step = 0;
  const auto lines = warnings_of(
      [&](auto& model) { return step++ < 2 ? model(samples(2)) : model->forward(samples(2)); });
  EXPECT_EQ(lines.size(), 1U);
}

TEST(ForwardOfTheModule, IsNotSuspectedWhereThePreparedModelRan) {
  EXPECT_EQ(warnings_of([](auto& model) { return model(samples(2)); }), std::vector<std::string>());
  EXPECT_EQ(warnings_of([](auto& model) { return model(samples(2)) + model.forward(samples(2)); }),
            std::vector<std::string>());
}

TEST(ForwardOfTheModule, IsNotSuspectedInAGanNorWhereAGraphIsRetained) {
  const LogCapture log;
  Accelerator accelerator({.communicator = single_communicator()});
  auto g = accelerator.prepare(torch::nn::Linear(4, 4));
  auto d = accelerator.prepare(make_net());
  for (int step = 0; step < 2; ++step) {
    const auto fake = g(samples(8));
    accelerator.backward(d(samples(8)).sum() - d(fake.detach()).sum());
    accelerator.backward(d(fake).sum(), {.retain_graph = true});
    accelerator.backward(fake.square().sum());
  }
  EXPECT_EQ(log.lines(), std::vector<std::string>());
}

class ShardedForwardOfTheModule : public testing::TwoShardedRanks {};

TEST_P(ShardedForwardOfTheModule, IsNamedInTheError) {
  on_two_ranks([](testing::ShardedRank& rank) {
    const auto step = [&] {
      rank.accelerator.backward(rank.model->forward(rank.x, false).square().mean());
    };
    expect_says(message_of<std::exception>(step), {"model->forward(x)", "model(x)"});
  });
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedForwardOfTheModule, testing::sharded_places(),
                         testing::kNameOfPlace);

// --- what a group would refuse, on one rank ------------------------------------------------------

struct Mistake {
  const char* name;
  const char* cure;
  std::function<void(Accelerator&, Net&, Prepared<Net>&)> make;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.name;
}

class MistakeOfAGroup : public ::testing::TestWithParam<Mistake> {
 protected:
  // What it ends with in a group of `ranks`.
  [[nodiscard]] static std::string message_on(int ranks) {
    std::string text;
    run_ranks_shared(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      Accelerator accelerator({.communicator = ranks > 1 ? comm : single_communicator()});
      Net net = make_net();
      net->out->bias.requires_grad_(false);
      auto model = accelerator.prepare(net);
      const auto make = [&] { GetParam().make(accelerator, net, model); };
      const auto heard = testing::kind_and_message_of(make);
      if (comm->rank() == 0) text = heard;
    });
    return text;
  }
};

TEST_P(MistakeOfAGroup, IsTheSameErrorOnOneRankInDebugMode) {
  const std::string expected = message_on(2);
  expect_says(expected, {"UsageError", GetParam().cure});
  EXPECT_EQ(message_on(1), "nothing was thrown") << "only on request";
  const testing::ScopedEnv debug(kDebug, "1");
  EXPECT_EQ(message_on(1), expected);
}

const Mistake kMistakes[] = {
    {"TheUnpreparedHandle", "model(x)",
     [](Accelerator& accelerator, Net& net, auto&) {
       accelerator.backward(net(samples(2)).mean());
     }},
    {"LossBackward", "accelerator.backward(loss)",
     [](Accelerator&, Net&, Prepared<Net>& model) { model(samples(2)).mean().backward(); }},
    {"UnusedParameters", "find_unused_parameters",
     [](Accelerator& accelerator, Net& net, Prepared<Net>& model) {
       accelerator.backward(model(samples(2)).mean().detach() * net->out->weight.sum());
     }},
    {"LateUnfreezing", "Unfreeze it before prepare()",
     [](Accelerator& accelerator, Net& net, Prepared<Net>& model) {
       net->out->bias.requires_grad_(true);
       accelerator.backward(model(samples(2)).mean());
     }},
};

INSTANTIATE_TEST_SUITE_P(Four, MistakeOfAGroup, ::testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

// The checks must not change what is trained, nor need what only a group needs.
TEST(DebugMode, TrainsOneRankAsWithoutIt) {
  const auto train = [] {
    Accelerator accelerator({.gradient_accumulation_steps = 2,
                             .ddp = {.comm_hook = DDPCommunicationHookType::bf16},
                             .communicator = single_communicator()});
    torch::nn::Sequential net(make_net()->in, torch::nn::BatchNorm1d(8), make_net()->out);
    torch::optim::AdamW adamw(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, adamw);
    for (int i = 0; i < 6; ++i) {
      const auto window = accelerator.accumulate(model);
      accelerator.backward(model(samples(8) + i).square().mean());
      accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      optimizer.zero_grad();
    }
    std::vector<at::Tensor> state = net->parameters();
    for (const auto& buffer : net->buffers()) state.push_back(buffer);
    return state;
  };
  const auto plain = train();
  const testing::ScopedEnv debug(kDebug, "1");
  const auto checked = train();
  ASSERT_EQ(checked.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(checked[i].equal(plain[i])) << i;
}

}  // namespace
}  // namespace accelerate
