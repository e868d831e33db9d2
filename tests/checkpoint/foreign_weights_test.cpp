// Weights that others wrote or are to read: modules of torch::save, TorchScript, Transformers.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <fstream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/formats/torch_archive/torch_archive.h"
#include "accelerate/tensor/stored_values.h"
#include "accelerate/tensor/weights.h"
#include "tests/formats/torch_archive_support.h"
#include "tests/support/counted_memory.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;
using Path = std::filesystem::path;

constexpr std::uint64_t kOneForeignFile = 1'000'000, kForeignShards = 4'000;

struct ForeignNetImpl : torch::nn::Module {
  ForeignNetImpl() {
    register_module("blocks", torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::Tanh(),
                                                    torch::nn::Linear(4, 2)));
    register_module("norm", torch::nn::BatchNorm1d(4));
    register_buffer("turned", torch::arange(6, at::kDouble).view({2, 3}).t());
  }
};

std::shared_ptr<ForeignNetImpl> random_net(std::uint64_t seed) {
  torch::manual_seed(seed);
  auto net = std::make_shared<ForeignNetImpl>();
  torch::NoGradGuard no_grad;
  for (auto& buffer : net->buffers()) buffer.add_(static_cast<std::int64_t>(seed));
  return net;
}

std::string difference(torch::nn::Module& a, torch::nn::Module& b) {
  const auto left = state_dict(view_of(a)), right = state_dict(view_of(b));
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!torch::equal(left[i].tensor, right[i].tensor)) return left[i].name;
  return {};
}

TEST(ForeignWeights, AModuleOfTorchSaveIsReadByItsNames) {
  const TemporaryFolder home;
  const auto saved = random_net(1), here = random_net(2);
  torch::save(saved, home.path() / "net.pt");
  ASSERT_NE(difference(*saved, *here), "");
  EXPECT_TRUE(load_checkpoint_in_model(*here, home.path() / "net.pt").fits());
  EXPECT_EQ(difference(*saved, *here), "");
}

TEST(ForeignWeights, ATensorAndAVectorOfTorchSaveAreCalledByTheirPlaces) {
  const TemporaryFolder home;
  const auto turned = torch::arange(6).view({2, 3}).t();
  torch::save(turned, home.path() / "one.pt");
  torch::save(std::vector<at::Tensor>{turned, torch::ones(2, at::kHalf)}, home.path() / "all.pt");
  const auto one = map_weights(home.path() / "one.pt"), all = map_weights(home.path() / "all.pt");
  ASSERT_EQ(one.outlines.size(), 1U);
  ASSERT_EQ(all.outlines.size(), 2U);
  EXPECT_EQ(one.outlines[0].name, "0");
  EXPECT_TRUE(torch::equal(one.read("0"), turned));
  EXPECT_EQ(all.outlines[1].name, "1");
  EXPECT_TRUE(torch::equal(all.read("1"), torch::ones(2, at::kHalf)));
}

TEST(ForeignWeights, ATorchScriptModuleIsReadWithoutItsProgram) {
  const TemporaryFolder home;
  torch::jit::Module inner("inner"), script("net");
  inner.register_parameter("weight", torch::rand({2, 2}), /*is_buffer=*/false);
  script.register_module("inner", inner);
  script.register_buffer("count", torch::tensor(7));
  script.define("def forward(self, x): return self.inner.weight @ x + self.count\n");
  script.save(home.path() / "script.pt");
  const auto weights = map_weights(home.path() / "script.pt");
  ASSERT_EQ(weights.outlines.size(), 2U);
  EXPECT_EQ(weights.read("count").item<int>(), 7);
  EXPECT_TRUE(torch::equal(weights.read("inner.weight"), inner.attr("weight").toTensor()));
}

TEST(ForeignWeights, AnOptimizerOfTorchSaveIsNoModelAndSaysSo) {
  const TemporaryFolder home;
  const auto net = random_net(1);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  torch::save(sgd, home.path() / "sgd.pt");
  try {
    load_checkpoint_in_model(*net, home.path() / "sgd.pt");
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "missing: blocks.0.weight", error.what());
  }
}

// The operations of a tensor of one float of a file, `times` over: its stride is 0.
std::string repeated(std::uint32_t times) {
  const std::string zero("K\0", 2);
  return testing::tensor_operations(zero, "J" + testing::number(times, 4) + "\x85", zero + "\x85",
                                    "K\1");
}

void write_archive(const Path& file, const std::string& operations) {
  std::ofstream(file, std::ios::binary)
      << testing::archive_of(testing::pickle(operations), {std::string(4, 'x')});
}

void write_bomb(const Path& file) {
  write_archive(file, "}(" + testing::text("weight") + repeated(800'000'000) + "u");
}

std::string list_of(int count, const std::string& operations) {
  std::string all = "](";
  for (int i = 0; i < count; ++i) all += operations;
  return all + "e";
}

TEST(ForeignWeights, AStateTakesNoMoreThanAFewTimesItsFile) {
  const TemporaryFolder home;
  const auto read = [&](const std::string& operations) {
    write_archive(home.path() / "state.pt", operations);
    const auto archive = TorchArchive::open(home.path() / "state.pt");
    return state_of(archive.value(), archive.content(), "state");
  };
  const testing::CountedMemory memory;
  EXPECT_EQ(read(list_of(10, repeated(1000))).list().size(), 10U);
  EXPECT_THROW(read(list_of(100, repeated(1000))), CheckpointError);
  EXPECT_THROW(read(repeated(800'000'000)), CheckpointError);
  EXPECT_LT(memory.peak(), 1'000'000U);
}

TEST(ForeignWeights, WhatAFileClaimsIsComparedWithTheModelBeforeItIsExpanded) {
  const TemporaryFolder home;
  write_bomb(home.path() / "bomb.pt");
  torch::nn::Module net;
  net.register_parameter("weight", torch::ones({2}));
  const testing::CountedMemory memory;
  for (const bool strict : {true, false}) {
    try {
      const auto report =
          load_checkpoint_in_model(net, home.path() / "bomb.pt", {.strict = strict});
      EXPECT_FALSE(strict);
      EXPECT_EQ(report.mismatched.size(), 1U);
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(strict);
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "[800000000] there, a tensor [2]", error.what());
    }
  }
  EXPECT_LT(memory.peak(), 1'000'000U);
}

TEST(ForeignWeights, AnEmptyTensorThatPythonLeftOutIsNotMissing) {
  const TemporaryFolder home;
  save_weights({{"weight", torch::full({2}, 3.0)}}, home.path(), kOneForeignFile);
  torch::nn::Module net;
  auto weight = net.register_parameter("weight", torch::ones({2}));
  net.register_buffer("nothing", torch::empty({0, 4}));
  EXPECT_TRUE(load_checkpoint_in_model(net, home.path()).fits());
  EXPECT_TRUE(torch::equal(weight, torch::full({2}, 3.0)));
  net.register_buffer("one", torch::empty({1}));
  EXPECT_THROW(load_checkpoint_in_model(net, home.path()), CheckpointError);
}

// A module made of names and shapes alone, "h.0.attn.weight" in the module "attn" of "0" of "h".
std::shared_ptr<torch::nn::Module> tree_of(const std::vector<NamedTensor>& weights) {
  auto root = std::make_shared<torch::nn::Module>();
  for (const auto& [name, tensor] : weights) {
    auto parts = split(name, '.');
    const std::string leaf = parts.back();
    parts.pop_back();
    auto place = root;
    for (const auto& part : parts) {
      const auto children = place->named_children();
      const auto* child = children.find(part);
      place = child != nullptr
                  ? *child
                  : place->register_module(part, std::make_shared<torch::nn::Module>());
    }
    place->register_parameter(leaf, torch::zeros(tensor.sizes(), tensor.scalar_type()),
                              tensor.is_floating_point());
  }
  return root;
}

testing::RunResult transformers(const std::string& mode, const Path& folder) {
  return testing::run_program(
      {testing::reference_python(), testing::reference_path("transformers_live.py").string(), mode,
       folder.string()},
      {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
}

// Loads what Transformers saved and saves it again, in one file and in shards.
void pass_on(const Path& model, const char* from, bool tied) {
  const auto net = tree_of(map_weights(model / "hub").outlines);
  if (tied) {
    auto& embedding = *net->named_children()["transformer"]->named_children()["wte"];
    net->register_module("lm_head", std::make_shared<torch::nn::Module>())
        ->register_parameter("weight", embedding.named_parameters()["weight"]);
  }
  EXPECT_TRUE(load_checkpoint_in_model(*net, model / from).fits());
  for (const auto max_shard_bytes : {kOneForeignFile, kForeignShards}) {
    const auto folder =
        model / (std::string(from) + "_" + std::to_string(max_shard_bytes)).substr(4);
    save_weights(without_duplicates(state_dict(view_of(*net))), folder, max_shard_bytes);
    std::filesystem::copy_file(model / "hub" / "config.json", folder / "config.json");
  }
}

TEST(ForeignWeights, TransformersReadsOursAndWeReadItsInOneFileAndInShards) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  const auto wrote = transformers("write", home.path());
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  for (const char* name : {"bert", "gpt2"}) {
    for (const char* from : {"hub", "hub_shards"})
      pass_on(home.path() / name, from, name == std::string("gpt2"));
  }
  const auto read = transformers("read", home.path());
  EXPECT_EQ(read.out, "8 folders\n") << read.err;
}

}  // namespace
}  // namespace accelerate
