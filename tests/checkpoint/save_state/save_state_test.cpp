// Which folders save_state() and load_state() use, what they hold, and what does not fit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <stdexcept>

#include "accelerate/accelerate.h"
#include "tests/checkpoint/save_state/saved_count.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Count;

using testing::message_of;
using testing::names_in;
using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;

torch::nn::Linear line(double weight, int outputs = 1) {
  torch::nn::Linear net(2, outputs);
  torch::NoGradGuard no_grad;
  net->weight.fill_(weight);
  net->bias.fill_(weight);
  return net;
}

AcceleratorOptions numbered_in(const Path& project, std::optional<std::int64_t> total_limit = {}) {
  return {.project_dir = project,
          .project_config = {.automatic_checkpoint_naming = true, .total_limit = total_limit},
          .communicator = single_communicator()};
}

TEST(SaveState, NumbersCheckpointsKeepsTheNewestAndGoesOnFromIt) {
  const TemporaryFolder home;
  Count count;
  {
    Accelerator accelerator(numbered_in(home.path(), 2));
    accelerator.register_for_checkpointing(count);
    for (count.value = 0; count.value < 12; ++count.value) {
      EXPECT_EQ(accelerator.save_iteration(), count.value);
      EXPECT_EQ(accelerator.save_state(),
                home.path() / "checkpoints" / ("checkpoint_" + std::to_string(count.value)));
    }
  }
  EXPECT_EQ(names_in(home.path() / "checkpoints"), (Names{"checkpoint_10", "checkpoint_11"}));
  Count resumed;
  Accelerator accelerator(numbered_in(home.path(), 2));
  accelerator.register_for_checkpointing(resumed);
  EXPECT_EQ(accelerator.load_state(), home.path() / "checkpoints" / "checkpoint_11");
  EXPECT_EQ(resumed.value, 11);
  EXPECT_EQ(accelerator.save_iteration(), 12);
}

TEST(SaveState, DoesNotOverwriteAnEarlierRun) {
  const TemporaryFolder home;
  Accelerator(numbered_in(home.path())).save_state();
  Accelerator again(numbered_in(home.path()));
  try {
    again.save_state();
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "is there already", error.what());
  }
  again.set_save_iteration(7);
  EXPECT_EQ(again.save_state().filename(), "checkpoint_7");
}

TEST(SaveState, WritesTheFilesThatTheDocumentationNames) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.mixed_precision = MixedPrecision::fp16, .communicator = ranks});
    auto first = line(1), second = line(2);
    torch::optim::SGD sgd(first->parameters(), 0.1);
    torch::optim::Adam adam(second->parameters(), 0.1);
    auto step = std::make_shared<StepLR>(sgd, 2);
    auto batches = make_data_loader(torch::arange(8.0), {.batch_size = 2});
    auto prepared = accelerator.prepare(first, second, sgd, adam, step, batches);
    Count count;
    accelerator.register_for_checkpointing(count);
    accelerator.register_save_state_pre_hook([&](const Path& folder) {
      std::ofstream(folder / ("note_" + std::to_string(ranks->rank()))) << "hello";
    });
    accelerator.save_state(home.path() / "a");
    accelerator.load_state(home.path() / "a");
  });
  EXPECT_EQ(names_in(home.path() / "a"),
            (Names{"accelerator.json", "custom_checkpoint.json", "dataloader.json", "manifest.json",
                   "model.safetensors", "model_1.safetensors", "note_0", "note_1", "optimizer.json",
                   "optimizer_1.json", "random_states_0.json", "random_states_0.safetensors",
                   "random_states_1.json", "random_states_1.safetensors", "scaler.json",
                   "scheduler.json"}));
}

// Two models whose parameters have the same names, each with an optimizer: a GAN.
TEST(SaveState, KeepsTwoModelsApart) {
  const TemporaryFolder home;
  const auto run = [&](bool resume) {
    Accelerator accelerator({.communicator = single_communicator()});
    auto a = line(resume ? 0 : 1), b = line(resume ? 0 : 2);
    torch::optim::Adam of_a(a->parameters(), 0.1), of_both({a->weight, b->weight, b->bias}, 0.2);
    auto [model_a, model_b, adam_a, adam_both] = accelerator.prepare(a, b, of_a, of_both);
    if (resume) accelerator.load_state(home.path() / "gan");
    for (int i = 0; i < 2; ++i) {
      const auto x = torch::ones({1, 2});
      accelerator.backward((model_a(x) * model_b(x)).sum());
      adam_a.step();
      adam_both.step();
      adam_a.zero_grad();
      adam_both.zero_grad();
      if (!resume && i == 0) accelerator.save_state(home.path() / "gan");
      if (resume) break;
    }
    return std::vector{a->weight.detach(), a->bias.detach(), b->weight.detach(), b->bias.detach()};
  };
  const auto whole = run(false), rest = run(true);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(torch::equal(whole[i], rest[i])) << i;
}

// The mean gradient of a window that two ranks began is what another number of ranks ends it with.
TEST(SaveState, SharesTheGradientsOfAnOpenWindowOut) {
  const TemporaryFolder home;
  std::optional<std::int64_t> items;
  const auto half = [&](int n, bool first, const std::vector<double>& inputs) {
    at::Tensor weight;
    run_ranks_shared(n, [&](const std::shared_ptr<Communicator>& ranks) {
      Accelerator accelerator({.gradient_accumulation_steps = 2, .communicator = ranks});
      auto net = line(first ? 1 : 0);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      if (!first) accelerator.load_state(home.path() / "a");
      const auto window = accelerator.accumulate(model);
      const auto x = torch::full({1, 2}, inputs[static_cast<std::size_t>(ranks->rank())]);
      accelerator.backward(model(x).sum(), {.num_items = items});
      optimizer.step();
      if (first) accelerator.save_state(home.path() / "a");
      if (!first && ranks->rank() == 0) weight = net->weight.detach().clone();
    });
    return weight;
  };
  half(2, true, {1.0, 3.0});
  // Means: 2 before the cut, 5 after it; the loss of each micro-batch counts half.
  EXPECT_TRUE(torch::allclose(half(1, false, {5.0}), torch::full({1, 2}, 1 - 0.1 * (2 + 5) / 2)));
  half(2, true, {1.0, 3.0});
  EXPECT_TRUE(
      torch::allclose(half(3, false, {4.0, 5.0, 6.0}), torch::full({1, 2}, 1 - 0.1 * (2 + 5) / 2)));
  // Counted items: the sum of all losses by the number of all items.
  items = 1;
  half(2, true, {1.0, 3.0});
  EXPECT_TRUE(torch::allclose(half(1, false, {5.0}), torch::full({1, 2}, 1 - 0.1 * (4 + 5) / 3)));
  half(2, true, {1.0, 3.0});
  EXPECT_TRUE(torch::allclose(half(3, false, {4.0, 5.0, 6.0}),
                              torch::full({1, 2}, 1 - 0.1 * (4 + 15) / 5)));
}

TEST(SaveState, SkipsADamagedCheckpointOnlyWhenAsked) {
  const TemporaryFolder home;
  Count count;
  Accelerator accelerator(numbered_in(home.path()));
  accelerator.register_for_checkpointing(count);
  for (count.value = 0; count.value < 3; ++count.value) accelerator.save_state();
  home.write("checkpoints/checkpoint_2/custom_checkpoint.json", "{\"value\": 7}");
  real_file_system().remove(home.path() / "checkpoints/checkpoint_1/manifest.json");
  EXPECT_THROW(accelerator.load_state(), CheckpointError);
  EXPECT_EQ(count.value, 3) << "nothing changed";
  const testing::LogCapture log;
  EXPECT_EQ(accelerator.load_state({}, {.skip_damaged = true}).filename(), "checkpoint_0");
  EXPECT_EQ(count.value, 0);
  ASSERT_EQ(log.lines().size(), 2U);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "checkpoint_2", log.lines()[0]);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "checkpoint_1", log.lines()[1]);
}

struct Misfit {
  const char* what;
  std::function<void(Accelerator&, const Path&)> load;
  const char* says;
};

TEST(SaveState, WhatDoesNotFitIsASentence) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  {
    Accelerator accelerator({.communicator = single_communicator()});
    auto net = line(1);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto prepared = accelerator.prepare(net, sgd);
    accelerator.save_state(folder);
  }
  const Misfit cases[] = {
      {"another shape",
       [](Accelerator& accelerator, const Path& path) {
         auto net = line(5, 3);
         torch::optim::SGD sgd(net->parameters(), 0.1);
         auto prepared = accelerator.prepare(net, sgd);
         try {
           accelerator.load_state(path);
         } catch (...) {
           EXPECT_EQ(net->bias[0].item<float>(), 5) << "nothing changed";
           throw;
         }
       },
       "of another shape: weight: a tensor [1, 2] there, a tensor [3, 2] in the model"},
      {"another optimizer",
       [](Accelerator& accelerator, const Path& path) {
         auto net = line(5);
         torch::optim::Adam adam(net->parameters(), 0.1);
         auto prepared = accelerator.prepare(net, adam);
         accelerator.load_state(path);
       },
       "has the state of SGD, the optimizer is Adam"},
      {"no optimizer",
       [](Accelerator& accelerator, const Path& path) {
         auto net = line(5);
         auto prepared = accelerator.prepare(net);
         accelerator.load_state(path);
       },
       "has optimizer.json, for which there is no object"},
      {"one object more",
       [](Accelerator& accelerator, const Path& path) {
         auto net = line(5);
         torch::optim::SGD sgd(net->parameters(), 0.1);
         auto prepared = accelerator.prepare(net, sgd);
         Count count;
         accelerator.register_for_checkpointing(count);
         accelerator.load_state(path);
       },
       "has no custom_checkpoint.json"},
      {"no folder",
       [](Accelerator& accelerator, const Path& path) { accelerator.load_state(path / "none"); },
       "no such folder"},
      {"no name", [](Accelerator& accelerator, const Path&) { accelerator.load_state(); },
       "load_state() needs a folder"},
      {"no name to save", [](Accelerator& accelerator, const Path&) { accelerator.save_state(); },
       "save_state() needs a folder"},
      {"an empty hook",
       [](Accelerator& accelerator, const Path&) {
         accelerator.register_save_state_pre_hook(nullptr);
       },
       "the hook is empty"},
      {"the same object twice",
       [](Accelerator& accelerator, const Path&) {
         Count count;
         accelerator.register_for_checkpointing(count, count);
       },
       "Count twice"},
      {"a negative iteration",
       [](Accelerator& accelerator, const Path&) { accelerator.set_save_iteration(-1); },
       "save_iteration is -1"},
  };
  for (const auto& [what, load, says] : cases) {
    Accelerator accelerator({.communicator = single_communicator()});
    try {
      load(accelerator, folder);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << what;
    }
  }
  Accelerator automatic(numbered_in(home.path()));
  EXPECT_THROW(automatic.save_state("elsewhere"), UsageError);
  EXPECT_THROW(automatic.load_state(), CheckpointError) << "none is there";
}

// Throws what is no error of ours.
struct Stubborn {
  bool saves = true;
  [[nodiscard]] StateDict state_dict() const {
    if (!saves) throw std::runtime_error("not ready yet");
    return {{"vocabulary", 3}};
  }
  void load_state_dict(const StateDict&) { throw std::runtime_error("the vocabulary differs"); }
};

TEST(SaveState, WhatAnObjectThrowsIsACheckpointErrorWithItsNameFolderAndText) {
  const TemporaryFolder home;
  const Path folder = home.path() / "a";
  Accelerator accelerator({.communicator = single_communicator()});
  Stubborn stubborn;
  accelerator.register_for_checkpointing(stubborn);
  accelerator.save_state(folder);
  const auto loading = message_of<CheckpointError>([&] { accelerator.load_state(folder); });
  stubborn.saves = false;
  const auto saving = message_of<CheckpointError>([&] { accelerator.save_state(folder); });
  for (const auto& said : {loading, saving})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'custom_checkpoint'", said);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, folder.string(), loading);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "because: the vocabulary differs", loading);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "because: not ready yet", saving);
}

struct Graph {
  [[nodiscard]] StateDict state_dict() const { return {{"adjacency", torch::eye(3).to_sparse()}}; }
  void load_state_dict(const StateDict&) {}
};

// On all ranks at once: none is left waiting for one that has failed.
TEST(SaveState, OfASparseTensorIsRefusedByItsNameOnAllRanks) {
  const TemporaryFolder home;
  for (const int world : {1, 2}) {
    for (const bool sharded : {false, true}) {
      run_ranks_shared(world, [&](const std::shared_ptr<Communicator>& ranks) {
        Accelerator accelerator({.communicator = ranks});
        auto net = line(1);
        Graph graph;
        if (world == 1) {
          net->register_buffer("adjacency", torch::eye(3).to_sparse());
        } else {
          accelerator.register_for_checkpointing(graph);
        }
        auto prepared = accelerator.prepare(net);
        const auto said = message_of<CheckpointError>(
            [&] { accelerator.save_state(home.path() / "a", {.sharded = sharded}); });
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot save 'adjacency'", said);
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, "densify it", said);
      });
    }
  }
}

TEST(SaveState, CallsHooksUntilTheyAreRemoved) {
  const TemporaryFolder home;
  Accelerator accelerator({.communicator = single_communicator()});
  int saved = 0, loaded = 0;
  auto save_hook = accelerator.register_save_state_pre_hook([&](const Path&) { ++saved; });
  auto load_hook = accelerator.register_load_state_pre_hook([&](const Path& folder) {
    EXPECT_EQ(folder, home.path() / "a");
    ++loaded;
  });
  accelerator.save_state(home.path() / "a/");
  accelerator.load_state(home.path() / "a");
  save_hook.remove();
  load_hook.remove();
  load_hook.remove();
  accelerator.save_state(home.path() / "a");
  accelerator.load_state(home.path() / "a");
  EXPECT_EQ(saved, 1);
  EXPECT_EQ(loaded, 1);
}

}  // namespace
}  // namespace accelerate
