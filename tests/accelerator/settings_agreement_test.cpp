// Ranks that differ in settings are told so, by name, before they train apart.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "accelerate/base/machine/hardware.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;
using testing::make_net;
using testing::run_ranks_shared;

using Group = std::shared_ptr<Communicator>;

void expect_all_in(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << text;
}

/// Every rank does the same with the options that `differ` has changed on rank 1.
struct Difference {
  std::string name, values;
  std::function<void(AcceleratorOptions&)> differ;
};

const std::vector<Difference> kDifferences = {
    {"mixed_precision", "no on rank 0, bf16 on rank 1",
     [](auto& options) { options.mixed_precision = MixedPrecision::bf16; }},
    {"gradient_accumulation_steps", "1 on rank 0, 4 on rank 1",
     [](auto& options) { options.gradient_accumulation_steps = 4; }},
    {"dataloader_config.even_batches", "true on rank 0, false on rank 1",
     [](auto& options) { options.dataloader_config.even_batches = false; }},
    {"dataloader_config.data_seed", "not set on rank 0, 7 on rank 1",
     [](auto& options) { options.dataloader_config.data_seed = 7; }},
    {"ddp.find_unused_parameters", "false on rank 0, true on rank 1",
     [](auto& options) { options.ddp.find_unused_parameters = true; }},
    {"ddp.bucket_cap_mb", "25 on rank 0, 1.5 on rank 1",
     [](auto& options) { options.ddp.bucket_cap_mb = 1.5; }},
    {"fsdp_plugin.sharding_strategy", "not set on rank 0, SHARD_GRAD_OP on rank 1",
     [](auto& options) {
       options.fsdp_plugin =
           FullyShardedDataParallelPlugin{.sharding_strategy = ShardingStrategy::SHARD_GRAD_OP};
     }},
};

TEST(SettingsOfRanks, ThatDifferAreNamedInPrepare) {
  for (const Difference& difference : kDifferences) {
    SCOPED_TRACE(difference.name);
    run_ranks_shared(2, [&](const Group& group) {
      AcceleratorOptions options = testing::on(group);
      if (group->rank() == 1) difference.differ(options);
      Accelerator accelerator(options);
      auto net = make_net();
      const auto text = kind_and_message_of([&] { static_cast<void>(accelerator.prepare(net)); });
      expect_all_in(text, {"ConfigError: prepare()", difference.name + ": " + difference.values});
    });
  }
}

RANK_MAIN(another_matrix_library) {
  Accelerator accelerator({.cpu = true});
  auto net = make_net();
  const auto text = kind_and_message_of([&] { static_cast<void>(accelerator.prepare(net)); });
  expect_all_in(
      text, {"ConfigError: prepare()", "ACCELERATE_CPU_MATMUL: mkl on rank 0, onednn on rank 1"});
  return ::testing::Test::HasFailure() ? 1 : 0;
}

// A process has one library: ranks that are threads cannot differ in it.
TEST(SettingsOfRanks, NameTheLibraryThatMultiplies) {
  if (!this_processor().avx512) GTEST_SKIP() << "needs cores with AVX-512";
  const auto place = [](int rank, std::map<std::string, std::string>& environment) {
    environment["ACCELERATE_CPU_MATMUL"] = rank == 0 ? "mkl" : "onednn";
    return std::vector<std::string>();
  };
  const testing::ProcessesOptions options{.env = {}, .place = place};
  for (const auto& result : testing::run_processes(2, "another_matrix_library", options))
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
}

TEST(SettingsOfRanks, OfLoadersAreNamedInPrepare) {
  run_ranks_shared(3, [](const Group& group) {
    Accelerator accelerator(testing::on(group));
    auto net = make_net();
    auto batches = make_data_loader(torch::arange(8), {.batch_size = group->rank() == 2 ? 4 : 2,
                                                       .shuffle = group->rank() == 2});
    const auto text =
        kind_and_message_of([&] { static_cast<void>(accelerator.prepare(net, batches)); });
    expect_all_in(text, {"object 2, batch_size: 2 on rank 0, 4 on rank 2",
                         "object 2, shuffle: false on rank 0, true on rank 2"});
    EXPECT_EQ(text.find("drop_last"), std::string::npos) << text;
  });
}

TEST(SettingsOfRanks, ALoaderAloneIsComparedThoughOneRankKnowsASeed) {
  run_ranks_shared(2, [](const Group& group) {
    AcceleratorOptions options = testing::on(group);
    if (group->rank() == 1) options.dataloader_config.data_seed = 7;
    Accelerator accelerator(options);
    auto batches = make_data_loader(torch::arange(8), {.batch_size = 2, .shuffle = true});
    const auto text = kind_and_message_of([&] { static_cast<void>(accelerator.prepare(batches)); });
    expect_all_in(text, {"ConfigError: prepare()",
                         "dataloader_config.data_seed: not set on rank 0, 7 on rank 1"});
  });
}

TEST(SettingsOfRanks, AreAlikeWhenObjectsAre) {
  run_ranks_shared(2, [](const Group& group) {
    Accelerator accelerator(testing::on(group));
    auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    const auto text = kind_and_message_of([&] {
      if (group->rank() == 0) {
        static_cast<void>(accelerator.prepare(net, sgd));
      } else {
        static_cast<void>(accelerator.prepare(net));
      }
    });
    expect_all_in(text, {"number of objects: 2 on rank 0, 1 on rank 1",
                         "object 2: an optimizer on rank 0, not set on rank 1"});
  });
}

TEST(SettingsOfRanks, MeetAnotherCallThatComparesItself) {
  run_ranks_shared(2, [](const Group& group) {
    Accelerator accelerator(testing::on(group));
    auto net = make_net();
    const auto text = kind_and_message_of([&] {
      if (group->rank() == 0) {
        static_cast<void>(accelerator.prepare(net));
      } else {
        static_cast<void>(accelerator.gather(torch::ones({3})));
      }
    });
    expect_all_in(text, {"CommError", "rank 0: prepare()", "rank 1: gather of Float"});
  });
}

/// One step on every rank, in which `differ` does something else on rank 1.
struct Step {
  Accelerator& accelerator;
  Prepared<testing::Net>& model;
  AcceleratedOptimizer& optimizer;
};

std::string first_step(const Group& group, const std::function<void(Step&, int rank)>& clip,
                       const std::function<void(Accelerator&, int rank)>& before = {}) {
  Accelerator accelerator(testing::on(group));
  auto net = make_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  if (before) before(accelerator, group->rank());
  const auto weight = net->in->weight.detach().clone();
  const auto text = kind_and_message_of([&] {
    accelerator.backward(model(testing::samples(4)).sum());
    Step step{accelerator, model, optimizer};
    clip(step, group->rank());
    optimizer.step();
  });
  EXPECT_TRUE(text == "nothing was thrown" || torch::equal(net->in->weight, weight));
  return text;
}

TEST(SettingsOfRanks, OfClippingAreNamedBeforeTheFirstStep) {
  run_ranks_shared(2, [](const Group& group) {
    const auto norms = first_step(group, [](Step& step, int rank) {
      step.accelerator.clip_grad_norm_(step.model.parameters(), rank == 0 ? 1.0 : 0.5);
    });
    expect_all_in(norms, {"ConfigError: the first step",
                          "clipping: clip_grad_norm_ with max_norm 1 and norm_type 2 on rank 0, "
                          "clip_grad_norm_ with max_norm 0.5 and norm_type 2 on rank 1"});
    const auto one = first_step(group, [](Step& step, int rank) {
      if (rank == 1) step.accelerator.clip_grad_value_(step.model.parameters(), 0.1);
    });
    expect_all_in(one, {"clipping: none before optimizer.step() on rank 0, clip_grad_value_ with "
                        "clip_value 0.1 on rank 1"});
  });
}

TEST(SettingsOfRanks, LetARankLookAtANormByItself) {
  run_ranks_shared(2, [](const Group& group) {
    const auto text = first_step(group, [](Step& step, int rank) {
      constexpr double kNever = std::numeric_limits<double>::infinity();
      if (rank == 0) step.accelerator.clip_grad_norm_(step.model.parameters(), kNever);
    });
    EXPECT_EQ(text, "nothing was thrown");
  });
}

TEST(SettingsOfRanks, ThatCameAfterPrepareAreNamedBeforeTheFirstStep) {
  const auto nothing = [](Step&, int) {};
  run_ranks_shared(2, [&](const Group& group) {
    const auto steps = first_step(group, nothing, [](Accelerator& accelerator, int rank) {
      accelerator.gradient_state()->accumulation.sync_each_batch = rank == 1;
    });
    expect_all_in(steps, {"gradient_accumulation_plugin.sync_each_batch: false on rank 0, true"});
    torch::optim::SGD other(std::vector{torch::ones({1}, torch::requires_grad())}, 0.1);
    std::optional<AcceleratedOptimizer> kept;
    const auto objects = first_step(group, nothing, [&](Accelerator& accelerator, int rank) {
      if (rank == 0) kept = accelerator.prepare(other);
    });
    expect_all_in(objects,
                  {"prepared optimizer 2: torch::optim::SGD with lr 0.1 on rank 0, not set"});
  });
}

// The exchange is done once: a rank may clip otherwise later, as where a norm decides.
TEST(SettingsOfRanks, AreComparedInTheFirstStepOnly) {
  run_ranks_shared(2, [](const Group& group) {
    Accelerator accelerator(testing::on(group));
    auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    for (int step = 0; step < 3; ++step) {
      accelerator.backward(model(testing::samples(4)).sum());
      if (step > 0 && group->rank() == 1) accelerator.clip_grad_norm_(model.parameters(), 1e9);
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_FALSE(accelerator.gradient_state()->at_first_step);
    }
    const auto all = accelerator.gather(net->in->weight.unsqueeze(0));
    EXPECT_TRUE(torch::equal(all[0], all[1]));
  });
}

}  // namespace
}  // namespace accelerate
