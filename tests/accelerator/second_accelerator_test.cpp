// Calls on an Accelerator with what another one has prepared: each works or says whose call it is.
// And refusals of prepare(): they leave all objects as they were.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/tensor/compat/lent_storage.h"
#include "tests/parallel/sharded/sharded_rank.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_says;
using testing::kind_and_message_of;
using testing::message_of;
using testing::Net;
using testing::run_ranks_shared;
using testing::samples;
using testing::ShardedNet;
using testing::ShardedNetOptions;
using testing::TemporaryFolder;
using Rank = testing::ShardedRank;

const std::string kWorks = "nothing was thrown";

template <typename Trained>
struct CallOnTheSecond {
  const char* name;
  std::string says;
  std::function<void(Accelerator& second, Trained& first)> call;
};

// --- sharded models ------------------------------------------------------------------------------

const CallOnTheSecond<Rank> kShardedCalls[] = {
    {"clip_grad_norm_", "clip_grad_norm_() was given parameters of",
     [](auto& second, Rank& first) { second.clip_grad_norm_(first.net->parameters(), 0.1); }},
    {"clip_grad_norm_ of parts", "clip_grad_norm_() was given parameters of",
     [](auto& second, Rank& first) { second.clip_grad_norm_(first.model.local_parameters(), 1); }},
    {"clip_grad_value_", "clip_grad_value_() was given parameters of",
     [](auto& second, Rank& first) { second.clip_grad_value_(first.net->parameters(), 0.1); }},
    {"backward", "backward() was given a loss of",
     [](auto& second, Rank& first) { second.backward(first.loss()); }},
    {"accumulate", "accumulate() was given",
     [](auto& second, Rank& first) { const auto window = second.accumulate(first.model); }},
    {"prepare of a prepared model, to evaluate it", kWorks,
     [](auto& second, Rank& first) {
       const torch::NoGradGuard no_grad;
       const auto& model = second.prepare(first.model);
       EXPECT_TRUE(second.gather(first.loss()).isfinite().all().template item<bool>());
       EXPECT_EQ(&model, &first.model);
     }},
    {"prepare of the optimizer", "another Accelerator has sharded",
     [](auto& second, Rank& first) { (void)second.prepare(first.sgd); }},
    {"save_state", "save_state() of an Accelerator that has prepared nothing",
     [](auto& second, Rank&) { second.save_state("/nowhere"); }},
    {"load_state", "load_state() of an Accelerator that has prepared nothing",
     [](auto& second, Rank&) { second.load_state("/nowhere"); }},
    {"unscale_gradients", kWorks,  // Nothing was scaled.
     [](auto& second, Rank& first) { second.unscale_gradients(first.optimizer); }},
    {"get_state_dict", kWorks,
     [](auto& second, Rank& first) {
       const auto whole = second.get_state_dict(first.model);
       EXPECT_EQ(whole.size(), first.index() == 0 ? first.net->parameters().size() : 0U);
     }},
    {"no_sync", kWorks,
     [](auto& second, Rank& first) { const auto scope = second.no_sync(first.model); }}};

class SecondOfShardedModels : public testing::TwoShardedRanks {};

TEST_P(SecondOfShardedModels, WorksOrSaysWhoseCallItIs) {
  on_two_ranks([](Rank& rank) {
    Accelerator second({.communicator = rank.model.core()->parallel().engine->communicator()});
    rank.accelerator.backward(rank.loss());
    for (const auto& [name, says, call] : kShardedCalls) {
      SCOPED_TRACE(name);
      expect_says(kind_and_message_of([&] { call(second, rank); }),
                  {says == kWorks ? says : "UsageError", says});
    }
    rank.optimizer.step();
    rank.optimizer.zero_grad();
    rank.step();
    EXPECT_TRUE(rank.loss().isfinite().item<bool>());
  });
}

TEST_P(SecondOfShardedModels, ParametersThatWereForgottenAreNotClippedInSilence) {
  on_two_ranks([](Rank& rank) {
    rank.accelerator.backward(rank.loss());
    rank.accelerator.free_memory();
    expect_says(message_of<UsageError>(
                    [&] { rank.accelerator.clip_grad_norm_(rank.net->parameters(), 0.1); }),
                {"free_memory()", "again"});
  });
}

INSTANTIATE_TEST_SUITE_P(Places, SecondOfShardedModels, testing::sharded_places(),
                         testing::kNameOfPlace);

// --- whole models --------------------------------------------------------------------------------

struct WholeModel {
  explicit WholeModel(std::shared_ptr<Communicator> comm, MixedPrecision precision)
      : accelerator({.mixed_precision = precision, .communicator = std::move(comm)}) {}
  [[nodiscard]] at::Tensor loss() { return model(samples(4)).square().mean(); }

  Accelerator accelerator;
  Net net = testing::make_net();
  torch::optim::SGD sgd{net->parameters(), 0.1};
  Prepared<Net> model = accelerator.prepare(net);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
};

using WholeCalls = std::vector<CallOnTheSecond<WholeModel>>;

void expect_answers(const std::shared_ptr<Communicator>& comm, MixedPrecision precision,
                    const WholeCalls& calls) {
  WholeModel first(comm, precision);
  Accelerator second({.mixed_precision = precision, .communicator = comm});
  first.accelerator.backward(first.loss());
  for (const auto& [name, says, call] : calls) {
    SCOPED_TRACE(name);
    expect_says(kind_and_message_of([&] { call(second, first); }), {says});
  }
  first.optimizer.step();
  first.optimizer.zero_grad();
  first.accelerator.backward(first.loss());
}

void clip_norm(Accelerator& second, WholeModel& first) {
  const double norm = second.clip_grad_norm_(first.net->parameters(), 1e-3).item<double>();
  EXPECT_GT(norm, 1e-3);
  EXPECT_NEAR(first.accelerator.clip_grad_norm_(first.net->parameters(), 1).item<double>(), 1e-3,
              1e-6);
}

TEST(SecondOfWholeModels, WorksOrSaysWhoseCallItIsOnSeveralRanks) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    expect_answers(
        comm, MixedPrecision::no,
        {{"clip_grad_norm_", kWorks, clip_norm},
         {"backward", "backward() on that one, or prepare the models of a loss with one",
          [](auto& second, auto& first) { second.backward(first.loss()); }},
         {"accumulate", "accumulate() was given",
          [](auto& second, auto& first) { const auto scope = second.accumulate(first.model); }},
         {"join_uneven_inputs", "join_uneven_inputs() was given", [](auto& second, auto& first) {
            const auto scope = second.join_uneven_inputs({}, first.model);
          }}});
  });
}

TEST(SecondOfWholeModels, DoesNotMixWhatIsScaledByAnother) {
  const WholeCalls calls = {
      {"clip_grad_norm_", "whose gradients only that Accelerator can unscale",
       [](auto& second, auto& first) { second.clip_grad_norm_(first.net->parameters(), 1); }},
      {"clip_grad_value_", "whose gradients only that Accelerator can unscale",
       [](auto& second, auto& first) { second.clip_grad_value_(first.net->parameters(), 1); }},
      {"unscale_gradients", "unscale_gradients() was given an optimizer that another",
       [](auto& second, auto& first) { second.unscale_gradients(first.optimizer); }},
      {"backward", "backward() was given a loss of",
       [](auto& second, auto& first) { second.backward(first.loss()); }}};
  expect_answers(single_communicator(), MixedPrecision::fp16, calls);
}

TEST(SecondOfWholeModels, DoesEverythingOnOneRankWithoutScaling) {
  const WholeCalls calls = {
      {"clip_grad_norm_", kWorks, clip_norm},
      {"accumulate", kWorks,
       [](auto& second, auto& first) { const auto scope = second.accumulate(first.model); }},
      {"backward", kWorks, [](auto& second, auto& first) { second.backward(first.loss()); }}};
  expect_answers(single_communicator(), MixedPrecision::no, calls);
}

// The model that a generator's loss goes through belongs to another Accelerator.
TEST(SecondOfWholeModels, MayTakePartInALossWithModelsOfItsOwn) {
  const AcceleratorOptions scaling{.mixed_precision = MixedPrecision::fp16,
                                   .communicator = single_communicator()};
  WholeModel critic(single_communicator(), MixedPrecision::fp16);
  Accelerator second(scaling);
  const at::Tensor scale = torch::ones({}, torch::requires_grad());
  torch::optim::SGD sgd({scale}, 0.1);
  auto optimizer = second.prepare(sgd);
  second.backward(critic.loss() * scale);
  second.clip_grad_norm_({scale}, 1);
  optimizer.step();
  EXPECT_NE(scale.item<float>(), 1);
}

TEST(SecondOfWholeModels, MayTrainTheModuleWithAnOptimizerOfItsOwn) {
  WholeModel first(single_communicator(), MixedPrecision::fp16);
  Accelerator second({.communicator = single_communicator()});
  torch::optim::SGD sgd(first.net->parameters(), 0.1);
  auto optimizer = second.prepare(sgd);
  second.backward(first.net->forward(samples(4)).square().mean());
  EXPECT_GT(second.clip_grad_norm_(first.net->parameters(), 1e-3).item<double>(), 1e-3);
  optimizer.step();
}

// Nobody can call its Accelerator any more, and the module trains on with another one.
TEST(SecondOfWholeModels, DoesEverythingWithTheModuleOfAnAcceleratorThatIsGone) {
  Net net = testing::make_net();
  const auto model =
      Accelerator({.mixed_precision = MixedPrecision::fp16, .communicator = single_communicator()})
          .prepare(net);
  Accelerator second({.communicator = single_communicator()});
  second.backward(net->forward(samples(4)).square().mean());
  EXPECT_GT(second.clip_grad_norm_(net->parameters(), 1e-3).item<double>(), 1e-3);
  const TemporaryFolder home;
  second.save_state(home.path() / "state");
}

TEST(SecondAccelerator, SavesWhatItsHooksWrite) {
  const WholeModel first(single_communicator(), MixedPrecision::no);
  const TemporaryFolder home;
  Accelerator second({.communicator = single_communicator()});
  bool called = false;
  const auto hook = second.register_save_state_pre_hook([&](const auto&) { called = true; });
  second.save_state(home.path() / "state");
  EXPECT_TRUE(called);
}

// As in Python, where all Accelerators of a process know of the loader.
TEST(SecondAccelerator, KnowsTheLoaderOfTheFirst) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator first({.communicator = comm});
    Accelerator second({.gradient_accumulation_steps = 2, .communicator = comm});
    auto model = second.prepare(testing::make_net());
    std::vector<std::int64_t> rows;
    std::vector<bool> synchronised;
    for (auto& batch : first.prepare(make_data_loader(torch::arange(5.0), {.batch_size = 1}))) {
      const auto window = second.accumulate(model);
      rows.push_back(second.gather_for_metrics(batch).size(0));
      synchronised.push_back(second.sync_gradients());
    }
    EXPECT_EQ(rows, (std::vector<std::int64_t>{2, 2, 1}));
    EXPECT_EQ(synchronised, (std::vector<bool>{false, true, true}));
  });
}

// --- refusals of prepare() -----------------------------------------------------------------------

bool is_whole(const ShardedNet& net) {
  return compat::LentStorage::owner_of(net->head_weight) == nullptr &&
         compat::LentStorage::owner_of(net->blocks->at(0)->up->weight) == nullptr;
}

struct RefusedPrepare {
  const char* says;
  std::function<void(Accelerator&, ShardedNet&)> prepare;
};

const RefusedPrepare kRefusals[] = {
    {"LBFGS",
     [](auto& accelerator, auto& net) {
       torch::optim::LBFGS lbfgs(net->parameters());
       (void)accelerator.prepare(net, lbfgs);
     }},
    {"LBFGS",
     [](auto& accelerator, auto& net) {
       torch::optim::LBFGS lbfgs(net->parameters());
       const auto optimizer = accelerator.prepare(lbfgs);
       (void)accelerator.prepare(net);
     }},
    {"split_batches",
     [](auto& accelerator, auto& net) {
       (void)accelerator.prepare(net, make_data_loader(torch::arange(9.0), {.batch_size = 3}));
     }},
    {"averaged twice", [](auto& accelerator, auto& net) {
       ShardedNet other{ShardedNetOptions{}};
       other->first->weight = other->first->register_parameter("shared", net->first->weight);
       (void)accelerator.prepare(net, other);
     }}};

TEST(RefusedPrepare, LeavesModelsWhole) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.dataloader_config = {.split_batches = true},
                             .fsdp_plugin = testing::wrapping_blocks(),
                             .communicator = comm});
    for (const auto& [says, prepare] : kRefusals) {
      SCOPED_TRACE(says);
      ShardedNet net{ShardedNetOptions{}};
      expect_says(kind_and_message_of([&] { prepare(accelerator, net); }), {says});
      EXPECT_TRUE(is_whole(net));
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      accelerator.backward(model(torch::ones({2, 7}), false).sum());
      optimizer.step();
    }
  });
}

TEST(RefusedPrepare, LeavesTheOptimizerAsItWas) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Rank rank(comm, {"", testing::usual_engine(), FullParametersHome::gathered},
              ShardedNet{ShardedNetOptions{}});
    Accelerator second({.communicator = comm});
    const at::Tensor own = torch::ones({2}, torch::requires_grad());
    torch::optim::SGD sgd({own, own, rank.net->head_weight}, 0.1);
    EXPECT_THROW((void)second.prepare(sgd), UsageError);
    const auto& held = sgd.param_groups()[0].params();
    ASSERT_EQ(held.size(), 3U);
    EXPECT_TRUE(held[1].is_same(own) && held[2].is_same(rank.net->head_weight));
  });
}

}  // namespace
}  // namespace accelerate
