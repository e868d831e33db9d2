// Checkpoints of sharded trainings: saved under one strategy, loaded under any other, and the
// training goes on as if nothing had been.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "accelerate/accelerate.h"
#include "accelerate/formats/shards/shard_files.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::message_of;
using testing::run_ranks_shared;
using testing::ShardedNet;
using testing::TemporaryFolder;
using Path = std::filesystem::path;
using NamedWeights = std::map<std::string, at::Tensor>;

struct Place {
  std::optional<ShardingStrategy> strategy;  // None: every rank has all.
  int ranks = 1;
  Engine engine = Engine::gloo;
};

const Place kPlaces[] = {{std::nullopt, 1},
                         {std::nullopt, 2},
                         {ShardingStrategy::FULL_SHARD, 2},
                         {ShardingStrategy::FULL_SHARD, 3, Engine::shared_memory},
                         {ShardingStrategy::SHARD_GRAD_OP, 4},
                         {ShardingStrategy::HYBRID_SHARD, 4},
                         {ShardingStrategy::NO_SHARD, 2}};

std::string text_of(const Place& place) {
  return (place.strategy ? std::string(to_string(*place.strategy)) : "unsharded") + " on " +
         std::to_string(place.ranks);
}

AcceleratorOptions options_of(const Place& place, StateDictType type,
                              const std::shared_ptr<Communicator>& ranks) {
  AcceleratorOptions options{.communicator = ranks};
  if (!place.strategy) return options;
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = place.strategy;
  plugin.state_dict_type = type;
  if (place.strategy == ShardingStrategy::HYBRID_SHARD) plugin.shard_group_size = 2;
  options.fsdp_plugin = plugin;
  return options;
}

// A net with tied and frozen weights under AdamW, which has the tied one twice, in fp64.
struct CheckpointTraining {
  CheckpointTraining(const AcceleratorOptions& options, at::ScalarType dtype = at::kDouble)
      : accelerator(options) {
    net->to(dtype);
    adamw =
        std::make_unique<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(0.01));
    std::tie(model, optimizer) = accelerator.prepare(net, *adamw);
  }

  void steps(int begin, int end) {
    for (int step = begin; step < end; ++step) {
      const auto window = accelerator.accumulate(*model);
      const auto x =
          testing::rows_of(step, accelerator.communicator()).to(net->head_weight.scalar_type());
      accelerator.backward(((*model)(x, false) - x.flip(1)).square().mean());
      optimizer->step();
      optimizer->zero_grad();
    }
  }

  // On all ranks.
  NamedWeights weights() {
    const auto whole = model->summon_full_params({.writeback = false});
    NamedWeights all;
    for (const auto& item : net->named_parameters())
      all[item.key()] = item.value().detach().clone();
    return all;
  }

  // On all ranks; the main one writes `kept`, which they share.
  void keep_weights(NamedWeights& kept) {
    auto all = weights();
    if (accelerator.is_main_process()) kept = std::move(all);
  }

  Accelerator accelerator;
  ShardedNet net{testing::ShardedNetOptions{.blocks = 2, .tied = true, .frozen = true}};
  std::unique_ptr<torch::optim::AdamW> adamw;
  std::optional<Prepared<ShardedNet>> model;
  std::optional<AcceleratedOptimizer> optimizer;
};

void on_ranks(const Place& place, StateDictType type,
              const std::function<void(CheckpointTraining&)>& body) {
  run_ranks_shared(place.ranks,
                   [&](const std::shared_ptr<Communicator>& ranks) {
                     CheckpointTraining training(options_of(place, type, ranks));
                     body(training);
                   },
                   {.engine = place.engine});
}

constexpr auto kFull = StateDictType::FULL_STATE_DICT;
constexpr auto kSharded = StateDictType::SHARDED_STATE_DICT;

void expect_close(const NamedWeights& there, const NamedWeights& wanted, double tolerance) {
  ASSERT_EQ(there.size(), wanted.size());
  for (const auto& [name, weight] : wanted) {
    EXPECT_LE((there.at(name) - weight).abs().max().item<double>(), tolerance) << name;
  }
}

TEST(ShardedCheckpoint, GoesOnUnderAnyStrategyOnAnyNumberOfRanksAsIfNothingHadBeen) {
  NamedWeights uninterrupted;
  on_ranks(kPlaces[0], kFull, [&](CheckpointTraining& training) {
    training.steps(0, 8);
    uninterrupted = training.weights();
  });
  for (const Place& before : kPlaces) {
    const TemporaryFolder home;
    for (const auto type : {kFull, kSharded}) {
      on_ranks(before, type, [&](CheckpointTraining& training) {
        training.steps(0, 4);
        training.accelerator.save_state(home.path() / std::string(to_string(type)));
      });
    }
    int turn = 0;
    for (const Place& after : kPlaces) {
      const auto type = ++turn % 2 == 0 ? kFull : kSharded;
      SCOPED_TRACE(text_of(before) + ", " + std::string(to_string(type)) + ", then " +
                   text_of(after));
      on_ranks(after, kSharded, [&](CheckpointTraining& training) {
        training.steps(0, 2);  // Of another training: all of it must go.
        training.accelerator.load_state(home.path() / std::string(to_string(type)));
        training.steps(4, 8);
        // fp64, and the order of sums is the only difference.
        expect_close(training.weights(), uninterrupted, 1e-9);
      });
    }
  }
}

TEST(ShardedCheckpoint, GoesOnBitForBitWhereNothingElseChanges) {
  for (const auto type : {kFull, kSharded}) {
    for (const Place& place : kPlaces) {
      SCOPED_TRACE(text_of(place));
      const TemporaryFolder home;
      NamedWeights uninterrupted;
      on_ranks(place, type, [&](CheckpointTraining& training) {
        training.steps(0, 3);
        training.accelerator.save_state(home.path() / "state");
        training.steps(3, 6);
        training.keep_weights(uninterrupted);
      });
      on_ranks(place, type, [&](CheckpointTraining& training) {
        training.accelerator.load_state(home.path() / "state");
        training.steps(3, 6);
        expect_close(training.weights(), uninterrupted, 0);
      });
    }
  }
}

// The fp32 values that the optimizer has, not the bf16 ones that the net computes with.
TEST(ShardedCheckpoint, KeepsTheMasterWeightsOfAMixedPrecisionTraining) {
  for (const Engine engine : {Engine::gloo, Engine::shared_memory}) {
    const TemporaryFolder home;
    NamedWeights uninterrupted;
    const auto train = [&](bool resumes) {
      run_ranks_shared(2,
                       [&](const std::shared_ptr<Communicator>& ranks) {
                         auto options = options_of(kPlaces[2], kSharded, ranks);
                         options.mixed_precision = MixedPrecision::bf16;
                         CheckpointTraining training(options, at::kFloat);
                         if (resumes) training.accelerator.load_state(home.path() / "state");
                         if (!resumes) training.steps(0, 3);
                         if (!resumes) training.accelerator.save_state(home.path() / "state");
                         training.steps(3, 6);
                         const auto all = training.weights();
                         if (resumes) expect_close(all, uninterrupted, 0);
                         if (!resumes && ranks->rank() == 0) uninterrupted = all;
                       },
                       {.engine = engine});
    };
    train(false);
    train(true);
    EXPECT_EQ(uninterrupted.at("head_weight").scalar_type(), at::kFloat);
    EXPECT_GT((uninterrupted.at("head_weight") -
               uninterrupted.at("head_weight").to(at::kBFloat16).to(at::kFloat))
                  .abs()
                  .max()
                  .item<double>(),
              0);
  }
}

std::size_t shards_in(const Path& folder) {
  std::size_t count = 0;
  for (const auto& name : real_file_system().list(folder))
    if (ShardFileName::parse(name)) ++count;
  return count;
}

TEST(ShardedCheckpoint, TheTypeOfTheStateSaysWhetherRanksWriteTheirPartsOrRankZeroAll) {
  const TemporaryFolder home;
  for (const auto type : {kFull, kSharded, StateDictType::LOCAL_STATE_DICT}) {
    for (const bool asynchronous : {false, true}) {
      const auto folder =
          home.path() / (std::string(to_string(type)) + (asynchronous ? "_later" : ""));
      on_ranks(kPlaces[3], type, [&](CheckpointTraining& training) {
        training.steps(0, 2);
        training.accelerator.save_state(folder, {.asynchronous = asynchronous});
        training.steps(2, 4);
        training.accelerator.wait_for_save();
      });
      const bool whole = type == kFull;
      EXPECT_EQ(std::filesystem::exists(folder / "model.safetensors"), whole);
      EXPECT_EQ(std::filesystem::exists(folder / "optimizer.safetensors"), whole);
      EXPECT_EQ(shards_in(folder) > 3, !whole) << shards_in(folder);
    }
  }
  // Asked for in so many words, shards it is.
  on_ranks(kPlaces[3], kFull, [&](CheckpointTraining& training) {
    training.accelerator.save_state(home.path() / "asked", {.sharded = true});
  });
  EXPECT_GT(shards_in(home.path() / "asked"), 3U);
}

TEST(ShardedCheckpoint, WholeModelsLieBesideAStateInPartsAndTheTrainingGoesOn) {
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(text_of(place));
    const TemporaryFolder home;
    const auto folder = home.path() / "state";
    NamedWeights saved, uninterrupted;
    on_ranks(place, kSharded, [&](CheckpointTraining& training) {
      training.steps(0, 3);
      training.keep_weights(saved);
      training.accelerator.save_state(folder, {.whole_models = true});
      training.steps(3, 5);
      training.keep_weights(uninterrupted);
    });
    ShardedNet net(testing::ShardedNetOptions{.blocks = 2, .tied = true, .frozen = true});
    net->to(at::kDouble);
    load_checkpoint_in_model(*net, folder);
    for (const auto& item : net->named_parameters())
      EXPECT_TRUE(at::equal(item.value(), saved.at(item.key()))) << item.key();
    on_ranks(place, kSharded, [&](CheckpointTraining& training) {
      training.accelerator.load_state(folder);
      training.steps(3, 5);
      expect_close(training.weights(), uninterrupted, 0);
    });
  }
}

TEST(ShardedCheckpoint, ModelsAloneLeaveTheRestAsItIs) {
  const Place& place = kPlaces[2];
  const TemporaryFolder home;
  NamedWeights early;
  on_ranks(place, kSharded, [&](CheckpointTraining& training) {
    training.steps(0, 2);
    training.keep_weights(early);
    training.accelerator.save_state(home.path() / "all");
    training.accelerator.save_state(home.path() / "alone",
                                    {.whole_models = true, .only_models = true});
  });
  EXPECT_FALSE(std::filesystem::exists(home.path() / "alone" / "optimizer.safetensors"));
  EXPECT_EQ(shards_in(home.path() / "alone"), 0U);
  for (const char* folder : {"all", "alone"}) {
    SCOPED_TRACE(folder);
    on_ranks(place, kSharded, [&](CheckpointTraining& training) {
      training.steps(0, 5);
      training.accelerator.load_state(home.path() / folder, {.only_models = true});
      expect_close(training.weights(), early, 0);
      for (const auto& [parameter, state] : training.adamw->state())
        EXPECT_EQ(static_cast<const torch::optim::AdamWParamState&>(*state).step(), 5);
    });
  }
  on_ranks(place, kSharded, [&](CheckpointTraining& training) {
    const auto message = message_of<CheckpointError>(
        [&] { training.accelerator.load_state(home.path() / "alone"); });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "optimizer", message);
  });
}

TEST(ShardedCheckpoint, AnAsynchronousSaveHoldsTheStateOfTheCall) {
  for (const auto type : {kFull, kSharded}) {
    const TemporaryFolder home;
    NamedWeights saved;
    on_ranks(kPlaces[3], type, [&](CheckpointTraining& training) {
      training.steps(0, 2);
      training.keep_weights(saved);
      training.accelerator.save_state(home.path() / "state", {.asynchronous = true});
      training.steps(2, 5);
      training.accelerator.wait_for_save();
    });
    on_ranks(kPlaces[0], type, [&](CheckpointTraining& training) {
      training.accelerator.load_state(home.path() / "state");
      expect_close(training.weights(), saved, 0);
    });
  }
}

TEST(ShardedCheckpoint, SaveModelWritesWholeTensorsThatAnyoneReads) {
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(text_of(place));
    const TemporaryFolder home;
    NamedWeights trained;
    on_ranks(place, kFull, [&](CheckpointTraining& training) {
      training.steps(0, 2);
      training.keep_weights(trained);
      training.accelerator.save_model(*training.model, home.path() / "one");
      training.accelerator.save_model(*training.model, home.path() / "several", "2KB");
      training.accelerator.save_model(*training.model, home.path() / "bin", "2KB", false);
      training.accelerator.wait_for_everyone();
    });
    EXPECT_TRUE(std::filesystem::exists(home.path() / "one" / "model.safetensors"));
    EXPECT_TRUE(std::filesystem::exists(home.path() / "several" / "model.safetensors.index.json"));
    EXPECT_TRUE(std::filesystem::exists(home.path() / "bin" / "pytorch_model.bin.index.json"));
    for (const char* folder : {"one", "several", "bin"}) {
      ShardedNet net(testing::ShardedNetOptions{.blocks = 2, .tied = true, .frozen = true});
      net->to(at::kDouble);
      load_checkpoint_in_model(*net, home.path() / folder);
      for (const auto& item : net->named_parameters())
        EXPECT_TRUE(at::equal(item.value(), trained.at(item.key()))) << item.key();
    }
  }
}

TEST(ShardedCheckpoint, GetStateDictIsWholeOnRankZero) {
  on_ranks(kPlaces[3], kFull, [&](CheckpointTraining& training) {
    training.steps(0, 2);
    const auto trained = training.weights();
    const auto state = training.accelerator.get_state_dict(*training.model);
    if (!training.accelerator.is_main_process()) {
      EXPECT_TRUE(state.empty());
      return;
    }
    EXPECT_EQ(state.size(), trained.size());
    for (const auto& [name, tensor] : state) EXPECT_TRUE(at::equal(tensor, trained.at(name)));
  });
}

// A folder that cannot be written: an error on all ranks, and none waits for another.
TEST(ShardedCheckpoint, WhatRankZeroCannotWriteIsAnErrorOnAllRanks) {
  const TemporaryFolder home;
  std::ofstream(home.path() / "file") << "in the way";
  on_ranks(kPlaces[2], kFull, [&](CheckpointTraining& training) {
    EXPECT_THROW(training.accelerator.save_model(*training.model, home.path() / "file"),
                 CheckpointError);
    training.steps(0, 1);
  });
}

TEST(ShardedCheckpoint, InsideAWindowIsRefusedWithTheCure) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    auto options = options_of(kPlaces[2], kSharded, ranks);
    options.gradient_accumulation_steps = 2;
    CheckpointTraining training(options);
    training.steps(0, 1);
    EXPECT_PRED_FORMAT2(
        ::testing::IsSubstring, "after optimizer.step()",
        message_of<UsageError>([&] { training.accelerator.save_state(home.path() / "state"); }));
    training.steps(1, 2);
    training.accelerator.save_state(home.path() / "state");
  });
}

// When the load begins, or once the folder has been found whole.
TEST(ShardedCheckpoint, AShardThatIsMissingIsNamedOnAllRanksAndChangesNothing) {
  const std::string missing = "shard-00002-model-00001-of-00001.safetensors";
  const TemporaryFolder home;
  const auto save = [&](CheckpointTraining& training) {
    training.accelerator.save_state(home.path() / "state");
  };
  for (const bool vanishes : {false, true}) {
    for (const Place& place : {kPlaces[2], kPlaces[3], kPlaces[5]}) {
      SCOPED_TRACE(text_of(place) + (vanishes ? ", later" : ""));
      on_ranks(kPlaces[2], kSharded, save);
      const auto remove = [&](const Path& folder) { std::filesystem::remove(folder / missing); };
      if (!vanishes) remove(home.path() / "state");
      on_ranks(place, kSharded, [&](CheckpointTraining& training) {
        training.steps(0, 1);
        const auto before = training.weights();
        if (vanishes) (void)training.accelerator.register_load_state_pre_hook(remove);
        const auto said = message_of<CheckpointError>(
            [&] { training.accelerator.load_state(home.path() / "state"); });
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, missing, said);
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, vanishes ? "cannot open" : "rank 1 wrote it",
                            said);
        expect_close(training.weights(), before, 0);
      });
    }
  }
}

TEST(ShardedCheckpoint, ARefusedLoadChangesNothingOnAnyRank) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator(options_of(kPlaces[2], kSharded, ranks));
    ShardedNet other(testing::ShardedNetOptions{.blocks = 1});
    torch::optim::AdamW adamw(other->parameters());
    auto prepared = accelerator.prepare(other, adamw);
    accelerator.save_state(home.path() / "other");
  });
  on_ranks(kPlaces[3], kSharded, [&](CheckpointTraining& training) {
    training.steps(0, 2);
    const auto before = training.weights();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "do not fit the model",
                        message_of<CheckpointError>(
                            [&] { training.accelerator.load_state(home.path() / "other"); }));
    expect_close(training.weights(), before, 0);
  });
}

}  // namespace
}  // namespace accelerate
