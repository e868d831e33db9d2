// save_state({.sharded = true}): the state of the same moment, written by all ranks and read by
// any.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "accelerate/accelerate.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "accelerate/formats/shards/shard_files.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;

constexpr SaveStateOptions kInShards{.sharded = true};

// Tied weights, running statistics, an empty and a scalar buffer, bf16, what ranks disagree about.
struct TiedNetImpl : torch::nn::Module {
  explicit TiedNetImpl(std::int64_t width = 200) {
    in = register_module("in", torch::nn::Linear(width, 300));
    norm = register_module("norm", torch::nn::BatchNorm1d(300));
    out = register_module("out", torch::nn::Linear(300, width));
    register_parameter("tied", in->weight);
    register_buffer("none", torch::empty({0, 3}));
    register_buffer("half", torch::arange(10).to(torch::kBFloat16));
    register_buffer("count", torch::tensor(3));
    yours = register_buffer("yours", torch::zeros({50'000}));
  }
  at::Tensor forward(const at::Tensor& x) { return out(norm(in(x)) + in(2 * x)); }
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor yours;  // Other on each rank when it is saved.
};
TORCH_MODULE(TiedNet);

std::vector<at::Tensor> without_twins(const TiedNetImpl& net) {
  auto all = net.in->parameters();
  for (const auto& part : {net.norm->parameters(), net.out->parameters()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

void fill(torch::nn::Module& net, double factor) {
  const torch::NoGradGuard no_grad;
  for (auto& weight : net.parameters())
    weight.copy_(torch::sin(torch::arange(weight.numel())).view_as(weight) * factor);
}

// Two models, the second small; Adam on the first, SGD with momentum on the second.
struct StateTraining {
  explicit StateTraining(const std::shared_ptr<Communicator>& ranks, double factor = 0.1)
      : accelerator({.gradient_accumulation_steps = 2, .communicator = ranks}) {
    fill(*net, factor);
    fill(*small, factor);
  }

  void step() {
    auto& [model, second, optimizer, other] = prepared;
    const auto window = accelerator.accumulate(model, second);
    const auto rank = static_cast<double>(accelerator.process_index());
    const auto x = torch::cos(torch::arange(4 * 200).view({4, 200}) * (1 + rank));
    accelerator.backward(second(model(x)).pow(2).mean());
    optimizer.step();
    other.step();
    optimizer.zero_grad();
    other.zero_grad();
  }

  [[nodiscard]] double first_weight() const { return net->in->weight[0][1].item<double>(); }

  Accelerator accelerator;
  TiedNet net;
  torch::nn::Linear small{200, 2};
  torch::optim::Adam adam{without_twins(*net), 0.01};
  torch::optim::SGD sgd{small->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)};
  decltype(std::declval<Accelerator&>().prepare(net, small, adam, sgd)) prepared =
      accelerator.prepare(net, small, adam, sgd);
};

std::map<std::string, std::string> contents(const Path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& name : real_file_system().list(folder))
    all[name] = read_file(real_file_system(), folder / name, 16 << 20);
  return all;
}

std::vector<std::string> shard_names_in(const Path& folder) {
  std::vector<std::string> names;
  for (const auto& name : real_file_system().list(folder))
    if (ShardFileName::parse(name)) names.push_back(name);
  return names;
}

// The state after three micro-batches, inside a window, in both layouts.
void save_both(const Path& home, int n) {
  run_ranks_shared(n, [&](const std::shared_ptr<Communicator>& ranks) {
    StateTraining training(ranks);
    for (int i = 0; i < 3; ++i) training.step();
    training.net->yours.fill_(ranks->rank() + 1);
    training.accelerator.save_state(home / "whole");
    training.accelerator.save_state(home / "shards", kInShards);
  });
}

struct Worlds {
  int before, after;
};

class ShardedState : public ::testing::TestWithParam<Worlds> {};

// Bit for bit: what is loaded is saved again unsharded, at once and a step later.
TEST_P(ShardedState, LoadsAsTheUnshardedStateOfTheSameMoment) {
  const TemporaryFolder home;
  save_both(home.path(), GetParam().before);
  for (const std::string from : {"whole", "shards"}) {
    run_ranks_shared(GetParam().after, [&](const std::shared_ptr<Communicator>& ranks) {
      StateTraining training(ranks, 7.0);
      training.accelerator.load_state(home.path() / from);
      training.accelerator.save_state(home.path() / (from + "_0"));
      training.step();
      training.accelerator.save_state(home.path() / (from + "_1"));
    });
  }
  for (const std::string later : {"_0", "_1"}) {
    const auto whole = contents(home.path() / ("whole" + later));
    const auto shards = contents(home.path() / ("shards" + later));
    ASSERT_EQ(whole.size(), shards.size());
    for (const auto& [name, text] : whole) {
      if (name.starts_with("random_states") || name == Manifest::kName) continue;
      EXPECT_TRUE(text == shards.at(name)) << name << later;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ShardedState,
                         ::testing::Values(Worlds{2, 1}, Worlds{2, 3}, Worlds{4, 2}, Worlds{1, 2},
                                           Worlds{2, 2}));

TEST(SaveInShards, EveryRankWritesItsShareInOneLayout) {
  const TemporaryFolder home;
  save_both(home.path(), 2);
  const auto found = shard_names_in(home.path() / "shards");
  for (const char* file : {"shard-00001-model-00001-of-00001.safetensors",
                           "shard-00002-model-00001-of-00001.safetensors",
                           "shard-00001-optimizer-00001-of-00001.safetensors",
                           "shard-00002-optimizer-00001-of-00001.safetensors",
                           "shard-00002-random_states_1-00001-of-00001.safetensors",
                           "shard-00002-gradients_1-00001-of-00001.safetensors"})
    EXPECT_NE(std::ranges::find(found, file), found.end()) << file;
  for (const auto& name : real_file_system().list(home.path() / "shards"))
    EXPECT_TRUE(name.ends_with(".json") || ShardFileName::parse(name)) << name;
  std::map<std::string, std::uintmax_t> of_model;
  for (const char* rank : {"00001", "00002"})
    of_model[rank] = std::filesystem::file_size(
        home.path() / "shards" /
        (std::string("shard-") + rank + "-optimizer-00001-of-00001.safetensors"));
  EXPECT_NEAR(static_cast<double>(of_model["00001"]), static_cast<double>(of_model["00002"]), 3000);
}

TEST(SaveInShards, MergesToTheWeightsOfTheUnshardedState) {
  const TemporaryFolder home;
  save_both(home.path(), 3);
  for (const std::string model : {"model", "model_1"}) {
    merge_weights(home.path() / "shards", home.path() / model, {.model = model});
    EXPECT_TRUE(contents(home.path() / model).at("model.safetensors") ==
                contents(home.path() / "whole").at(model + ".safetensors"))
        << model;
  }
}

// dcp.load and torch's consolidation find the model among all the files of the folder.
TEST(SaveInShards, PyTorchReadsTheFolderItself) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  save_both(home.path(), 2);
  const auto read = testing::run_program(
      {testing::reference_python(), testing::reference_path("dcp_live.py").string(), "read",
       (home.path() / "shards").string(), (home.path() / "whole" / "model.safetensors").string()},
      {.env = {}, .timeout = std::chrono::seconds(110), .working_directory = {}});
  EXPECT_EQ(read.out, "13 tensors, 10 consolidated\n") << read.err;
}

TEST(SaveInShards, AsynchronouslyHoldsTheStateOfTheCall) {
  const TemporaryFolder home;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    StateTraining training(ranks);
    training.step();
    training.accelerator.save_state(home.path() / "now", kInShards);
    training.accelerator.save_state(home.path() / "meanwhile",
                                    {.asynchronous = true, .sharded = true});
    for (int i = 0; i < 4; ++i) training.step();
    training.accelerator.wait_for_save();
    ranks->barrier();
  });
  EXPECT_TRUE(contents(home.path() / "now") == contents(home.path() / "meanwhile"));
}

// --- what does not fit ---------------------------------------------------------------------------

void write_anew(const Path& folder, const std::function<bool(const std::string& name)>& keep) {
  Manifest manifest = read_manifest(real_file_system(), folder);
  std::vector<ManifestFile> kept;
  for (const auto& file : manifest.files) {
    if (keep(file.name)) kept.push_back(manifest_file(real_file_system(), folder, file.name));
  }
  manifest.files = kept;
  std::filesystem::remove(folder / Manifest::kName);
  write_manifest(real_file_system(), folder, manifest);
}

struct Damage {
  const char* what;
  std::function<void(const Path& folder, const Path& other)> make;
  const char* says;
};

TEST(SaveInShards, WhatIsMissingOrOfAnotherModelIsNamedAndNothingChanged) {
  const std::string second = "shard-00002-model-00001-of-00001.safetensors";
  const Damage cases[] = {
      {"a rank's file is gone",
       [&](const Path& folder, const Path&) { std::filesystem::remove(folder / second); },
       "'shard-00002-model-00001-of-00001.safetensors' is missing"},
      {"nor does the manifest know it",
       [&](const Path& folder, const Path&) {
         std::filesystem::remove(folder / second);
         write_anew(folder, [&](const std::string& name) { return name != second; });
       },
       "a shard is missing"},
      {"all of a model's are unknown",
       [&](const Path& folder, const Path&) {
         write_anew(folder, [](const std::string& name) {
           return name.find("-model_1-") == std::string::npos;
         });
       },
       "has no model_1.safetensors"},
      {"one is of another model",
       [&](const Path& folder, const Path& other) {
         std::filesystem::copy_file(other / second, folder / second,
                                    std::filesystem::copy_options::overwrite_existing);
         write_anew(folder, [](const std::string&) { return true; });
       },
       "a shard is missing. Its first part is"},
      {"all are of another model",
       [&](const Path& folder, const Path& other) {
         for (const auto& name : shard_names_in(folder))
           if (name.find("-model-") != std::string::npos)
             std::filesystem::copy_file(other / name, folder / name,
                                        std::filesystem::copy_options::overwrite_existing);
         write_anew(folder, [](const std::string&) { return true; });
       },
       "do not fit the model"},
      {"a shard is cut short",
       [&](const Path& folder, const Path&) {
         std::filesystem::resize_file(folder / second, 1000);
         write_anew(folder, [](const std::string&) { return true; });
       },
       "cut short"},
  };
  const TemporaryFolder home;
  save_both(home.path(), 2);
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.communicator = ranks});
    TiedNet wider(240);
    auto prepared = accelerator.prepare(wider);
    accelerator.save_state(home.path() / "other", kInShards);
  });
  for (const auto& [what, make, says] : cases) {
    const Path folder = home.path() / "damaged";
    std::filesystem::remove_all(folder);
    std::filesystem::copy(home.path() / "shards", folder);
    make(folder, home.path() / "other");
    StateTraining training(single_communicator(), 5.0);
    const double before = training.first_weight();
    try {
      training.accelerator.load_state(folder);
      ADD_FAILURE() << what;
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << what;
    }
    EXPECT_EQ(training.first_weight(), before) << what;
  }
}

}  // namespace
}  // namespace accelerate
