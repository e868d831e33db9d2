// What a load that is refused late leaves behind: on all ranks the training as it was.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <utility>

#include "accelerate/accelerate.h"
#include "accelerate/formats/manifest.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;

// Two models with an optimizer each.
template <typename Second>
struct RefusedTraining {
  explicit RefusedTraining(std::shared_ptr<Communicator> ranks)
      : accelerator({.communicator = std::move(ranks)}) {}

  void step() {
    auto& [model_a, model_b, optimizer_a, optimizer_b] = prepared;
    accelerator.backward(model_b(model_a(torch::ones({1, 2}))).pow(2).sum());
    optimizer_a.step();
    optimizer_b.step();
    optimizer_a.zero_grad();
    optimizer_b.zero_grad();
  }

  // All there is to save, as it is now. [collective]
  std::map<std::string, std::string> everything(const Path& home) {
    const Path now = home / "now";
    accelerator.save_state(now);
    std::map<std::string, std::string> all;
    for (const auto& name : real_file_system().list(now))
      all[name] = read_file(real_file_system(), now / name, 1 << 20);
    accelerator.wait_for_everyone();
    return all;
  }

  // What load_state throws on this rank. [collective]
  std::string refusal(const Path& folder) {
    return message_of<CheckpointError>([&] { accelerator.load_state(folder); });
  }

  Accelerator accelerator;
  torch::nn::Linear a{2, 2}, b{2, 2};
  torch::optim::Adam first{a->parameters(), 0.1};
  Second second{b->parameters(), 0.1};
  decltype(std::declval<Accelerator&>().prepare(a, b, first, second)) prepared =
      accelerator.prepare(a, b, first, second);
};

using TwoAdams = RefusedTraining<torch::optim::Adam>;

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

TEST(RefusedLoad, ASecondOptimizerThatDoesNotFitLeavesTheFirstAsItWas) {
  for (const int world : {1, 2}) {
    const TemporaryFolder home;
    const Path folder = home.path() / "a";
    run_ranks_shared(world, [&](const std::shared_ptr<Communicator>& ranks) {
      RefusedTraining<torch::optim::SGD> saved(ranks);
      saved.step();
      saved.accelerator.save_state(folder);
      TwoAdams training(ranks);
      training.step();
      const auto before = training.everything(home.path());
      const auto said = training.refusal(folder);
      expect_part(said, "the state of 'optimizer_1'");
      expect_part(said, "Nothing was changed");
      EXPECT_TRUE(training.everything(home.path()) == before);
      training.step();
    });
  }
}

// Puts `bytes` in the place of a file, with a manifest that agrees.
void forge(const Path& folder, const std::string& name, const std::string& bytes) {
  auto& files = real_file_system();
  Manifest manifest = read_manifest(files, folder);
  std::ofstream(folder / name, std::ios::binary) << bytes;
  for (auto& file : manifest.files)
    if (file.name == name) file = manifest_file(files, folder, name);
  std::filesystem::remove(folder / Manifest::kName);
  write_manifest(files, folder, manifest);
}

TEST(RefusedLoad, WhatOneRankCannotReadChangesNothingOnTheOthers) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    TwoAdams training(ranks);
    training.accelerator.save_state(folder);
    if (ranks->rank() == 0) forge(folder, "random_states_1.json", R"({"cpu": 3})");
    training.step();
    const auto before = training.everything(home.path());
    expect_part(training.refusal(folder), "random_states_1");
    EXPECT_TRUE(training.everything(home.path()) == before);
  });
}

// Loads what it is given, unless it is told to refuse.
struct RefusingCount {
  std::int64_t value = 0;
  bool refuses = false;
  [[nodiscard]] StateDict state_dict() const { return {{"value", value}}; }
  void load_state_dict(const StateDict& state) {
    if (refuses) throw std::runtime_error("the vocabulary differs");
    value = state.at("value").to<std::int64_t>();
  }
};

TEST(RefusedLoad, AnObjectThatRefusesOnOneRankLeavesAllButTheObjectsBeforeItOnAllRanks) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    TwoAdams training(ranks);
    RefusingCount counts[3];
    training.accelerator.register_for_checkpointing(counts[0], counts[1], counts[2]);
    training.accelerator.save_state(folder);
    training.step();
    for (auto& count : counts) count.value = 5;
    auto before = training.everything(home.path());
    counts[1].refuses = ranks->rank() == 1;
    const auto said = training.refusal(folder);
    expect_part(said, "the state of 'custom_checkpoint_1'");
    expect_part(said, "the vocabulary differs");
    expect_part(said, "everything else is unchanged");
    EXPECT_EQ(counts[0].value, 0) << "it has what it was given";
    EXPECT_EQ(counts[1].value, counts[1].refuses ? 5 : 0);
    EXPECT_EQ(counts[2].value, 5) << "it comes after the one that refuses";
    counts[0].value = 5;
    counts[1].value = 5;
    EXPECT_TRUE(training.everything(home.path()) == before);
  });
}

}  // namespace
}  // namespace accelerate
