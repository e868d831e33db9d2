// Whole tensors on rank 0 out of the parts that ranks have.
#include "accelerate/checkpoint/shard_collector.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::message_of;
using testing::run_ranks;
using testing::TemporaryFolder;

at::Tensor whole() {
  return at::arange(35).view({7, 5}).to(at::kBFloat16);
}

// Equal ranges of elements, without regard to rows; with replicas, ranks r and r + 2 have the same.
std::vector<LocalShard> parts_of_rank(int rank, int ranks, bool replicas = false) {
  const int slices = replicas ? ranks / 2 : ranks, slice = rank % slices;
  const std::int64_t begin = 35 * slice / slices, end = 35 * (slice + 1) / slices;
  const auto flat = whole().view({-1}).narrow(0, begin, end - begin);
  return tiles_of({"w", flat, begin, {7, 5}}, "w", flat);
}

TEST(ShardCollector, PutsPartsOfAllRanksTogetherInAnyOrderAndAnyNumberOfTimes) {
  for (const auto engine : {Engine::gloo, Engine::shared_memory}) {
    for (const int n : {1, 2, 3, 4}) {
      run_ranks(n,
                [&](Communicator& ranks) {
                  auto shards = parts_of_rank(ranks.rank(), n);
                  if (ranks.rank() == n - 1) {
                    shards.push_back({"scalar", at::full({}, 2.5), {{}, {}}, {}});
                    shards.push_back({"empty", at::empty({0, 4}), {{0, 0}, {0, 4}}, {0, 4}});
                  }
                  ShardCollector collector(ranks, std::move(shards));
                  EXPECT_EQ(collector.outlines().size(), 3U);
                  int calls = 0;
                  collector.together([&] {
                    ++calls;
                    if (ranks.rank() != 0) return;
                    for (int i = 0; i < 2; ++i) {
                      EXPECT_EQ(collector.collect("scalar").item<double>(), 2.5);
                      EXPECT_TRUE(at::equal(collector.collect("w"), whole()));
                      EXPECT_EQ(collector.collect("empty").sizes(), at::IntArrayRef({0, 4}));
                    }
                  });
                  EXPECT_EQ(calls, 1);
                },
                {.engine = engine});
    }
  }
}

TEST(ShardCollector, OfReplicasOneSends) {
  run_ranks(4, [](Communicator& ranks) {
    ShardCollector collector(ranks, parts_of_rank(ranks.rank(), 4, /*replicas=*/true));
    collector.together(
        [&] { EXPECT_TRUE(ranks.rank() != 0 || at::equal(collector.collect("w"), whole())); });
  });
}

TEST(ShardCollector, WhatFailsOnRankZeroEndsTheServiceOfTheOthers) {
  run_ranks(3, [](Communicator& ranks) {
    ShardCollector collector(ranks, parts_of_rank(ranks.rank(), 3));
    const auto text = testing::kind_and_message_of([&] {
      collector.together([&] {
        if (ranks.rank() == 0) (void)collector.collect("v");
      });
    });
    EXPECT_EQ(text, ranks.rank() == 0 ? "CheckpointError: no rank has a part of 'v'"
                                      : "nothing was thrown");
    ranks.barrier();
  });
}

TEST(ShardCollector, PartsThatDisagreeAreAnErrorOnAllRanks) {
  run_ranks(2, [](Communicator& ranks) {
    auto shards = parts_of_rank(ranks.rank(), 2);
    if (ranks.rank() == 1) shards.front().tensor = shards.front().tensor.to(at::kFloat);
    EXPECT_PRED_FORMAT2(
        ::testing::IsSubstring, "on an earlier rank",
        message_of<CheckpointError>([&] { ShardCollector(ranks, std::move(shards)); }));
  });
}

TEST(PlanWhole, RankZeroWritesWhatIsWholeAndWhatItFetches) {
  const TemporaryFolder home;
  run_ranks(3, [&](Communicator& ranks) {
    const int rank = ranks.rank();
    std::vector<PlannedFile> planned = {
        {.name = "model.safetensors",
         .tensors = {{"here", at::ones({2})}},
         .shards = parts_of_rank(rank, 3)},
        {.name = "own_" + std::to_string(rank) + ".json", .text = "{}", .one_rank = true}};
    const auto collector = plan_whole(planned, ranks);
    ASSERT_EQ(planned.size(), rank == 0 ? 2U : 1U);
    EXPECT_EQ(planned_bytes(planned), rank == 0 ? 8U + 70 + 2 : 2U);
    collector->together([&] { (void)write_planned(real_file_system(), home.path(), planned); });
  });
  const auto file = home.path() / "model.safetensors";
  for (const auto& [name, tensor] : load_tensors(file))
    EXPECT_TRUE(at::equal(tensor, name == "w" ? whole() : at::ones({2}))) << name;
  EXPECT_EQ(load_tensors(file).size(), 2U);
  EXPECT_EQ(real_file_system().list(home.path()).size(), 4U);
}

}  // namespace
}  // namespace accelerate
