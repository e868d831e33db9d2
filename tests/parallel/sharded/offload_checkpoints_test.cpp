// Checkpoints of models whose values live in files, and what may not live there.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/optim/algorithms/lion.h"
#include "tests/parallel/sharded/offloaded_program.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::all_on_disk;
using testing::message_of;
using testing::OffloadedRank;
using testing::OffloadedSetting;
using testing::options_of;
using testing::ShardedNet;
using testing::ShardedNetOptions;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;

class OffloadedCheckpoints : public ::testing::TestWithParam<MixedPrecision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, OffloadedCheckpoints,
                         ::testing::Values(MixedPrecision::no, MixedPrecision::bf16,
                                           MixedPrecision::fp16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// Files may be left, or entered, between the two halves of a training.
TEST_P(OffloadedCheckpoints, AreTheSameWithFilesAndWithout) {
  const testing::TemporaryFolder root, home;
  const OffloadedSetting setting{.precision = GetParam()};
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    const auto make = [&](bool on_disk) {
      return OffloadedRank(
          options_of(setting, comm,
                     on_disk ? std::optional(all_on_disk(root.path())) : std::nullopt),
          {.tied = true, .frozen = true});
    };
    const auto train = [](OffloadedRank& rank, int first) {
      for (int step = first; step < first + 2; ++step) rank.step(step);
      return rank.weights();
    };
    auto uninterrupted = make(false);
    (void)train(uninterrupted, 0);
    const auto expected = train(uninterrupted, 2);
    for (const bool was_on_disk : {false, true}) {
      const auto folder = home.path() / (was_on_disk ? "disk" : "memory");
      {
        auto first = make(was_on_disk);
        (void)train(first, 0);
        (void)first.accelerator.save_state(folder);
        (void)train(first, 2);
        first.accelerator.load_state(folder);
        EXPECT_TRUE(train(first, 2)[0].equal(expected[0])) << "it goes back itself";
      }
      for (const bool is_on_disk : {false, true}) {
        auto second = make(is_on_disk);
        second.accelerator.load_state(folder);
        const auto found = train(second, 2);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(found[i].equal(expected[i])) << was_on_disk << is_on_disk << i;
      }
    }
  });
}

// --- refusals ------------------------------------------------------------------------------------

struct Refusal {
  std::string name;
  std::vector<std::string> parts;
  std::function<void(FullyShardedDataParallelPlugin&, int rank)> change =
      [](FullyShardedDataParallelPlugin&, int) {};
  std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)> make =
      [](const auto& parameters) {
        return std::make_unique<AdamW>(parameters, AdamWOptions(0.01));
      };
  bool is_bf16 = false;
};
void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

template <typename Kind, typename Options>
auto refused_kind(const Options& options) {
  return [options](const std::vector<at::Tensor>& parameters) {
    return std::make_unique<Kind>(parameters, options);
  };
}

std::vector<Refusal> refusals() {
  return {
      {.name = "SharedPages",
       .parts = {"shared_pages", "gathered"},
       .change = [](auto& plugin,
                    int) { plugin.full_parameters = FullParametersHome::shared_pages; }},
      {.name = "Stage2",
       .parts = {"SHARD_GRAD_OP", "FULL_SHARD"},
       .change = [](auto& plugin,
                    int) { plugin.sharding_strategy = ShardingStrategy::SHARD_GRAD_OP; }},
      {.name = "Lion", .parts = {"Lion", "AdamW"}, .make = refused_kind<Lion>(LionOptions(0.01))},
      {.name = "RMSprop",
       .parts = {"RMSprop", "AdamW"},
       .make = refused_kind<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01))},
      {.name = "LBFGS",
       .parts = {"LBFGS"},
       .make = refused_kind<torch::optim::LBFGS>(torch::optim::LBFGSOptions(0.01))},
      {.name = "Bf16", .parts = {"BFloat16", "mixed precision"}, .is_bf16 = true},
      {.name = "RanksThatDiffer",
       .parts = {"disk_offload"},
       .change =
           [](auto& plugin, int rank) {
             if (rank == 1) plugin.disk_offload->optimizer_folder.clear();
           }},
  };
}

class OffloadRefusals : public ::testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(Cases, OffloadRefusals, ::testing::ValuesIn(refusals()),
                         [](const auto& info) { return info.param.name; });

TEST_P(OffloadRefusals, AreToldToAllRanks) {
  const testing::TemporaryFolder root;
  testing::run_ranks_shared(2,
                            [&](const std::shared_ptr<Communicator>& comm) {
                              auto options = options_of({}, comm, all_on_disk(root.path()));
                              GetParam().change(*options.fsdp_plugin, comm->rank());
                              const std::string message = message_of<Error>([&] {
                                Accelerator accelerator(options);
                                ShardedNet net{ShardedNetOptions{}};
                                if (GetParam().is_bf16) net->to(at::kBFloat16);
                                const auto optimizer = GetParam().make(net->parameters());
                                (void)accelerator.prepare(net, *optimizer);
                              });
                              for (const auto& part : GetParam().parts)
                                EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
                            },
                            {.engine = testing::Engine::shared_memory});
  for (const auto& entry : std::filesystem::directory_iterator(root.path()))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " was not removed";
}

// --- beside others -------------------------------------------------------------------------------

TEST(OffloadedTrainings, MayRunBesideEachOtherBelowOneRoot) {
  const testing::TemporaryFolder root;
  const auto train = [](const std::optional<DiskOffload>& offload) {
    OffloadedRank rank(options_of({}, single_communicator(), offload));
    for (int step = 0; step < 3; ++step) rank.step(step);
    return rank.weights();
  };
  const auto expected = train(std::nullopt);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto found = train(all_on_disk(root.path()));
      for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_TRUE(found[k].equal(expected[k]));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& entry : std::filesystem::directory_iterator(root.path()))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " was not removed";
}

}  // namespace
}  // namespace accelerate
