#include "accelerate/tensor/weights.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/model_weights.h"
#include "tests/support/errors.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::TemporaryFolder;
using Names = std::vector<std::string>;
using Path = std::filesystem::path;

constexpr std::uint64_t kOneFile = 1'000'000, kShards = 500;

struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const at::Tensor& tied) {
    register_parameter("weight", tied);
    register_parameter("bias", torch::zeros({10}));
  }
};

// The model of tests/reference/weights_live.py: the weights of a and d are one.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("a", a);
    register_module("b", torch::nn::Linear(10, 40));
    register_module("c", torch::nn::Linear(40, 10));
    register_module("d", std::make_shared<HeadImpl>(a->weight));
    register_module("norm", torch::nn::BatchNorm1d(10));
  }
  torch::nn::Linear a{10, 10};
};

std::vector<NamedTensor> tensors_of(torch::nn::Module& net) {
  return without_duplicates(state_dict(view_of(net)));
}

// As the script fills it.
std::shared_ptr<NetImpl> filled() {
  auto net = std::make_shared<NetImpl>();
  torch::NoGradGuard no_grad;
  std::int64_t first = 0;
  for (auto& [name, tensor] : tensors_of(*net)) {
    tensor.copy_((torch::arange(tensor.numel()) + first).view_as(tensor));
    first += 1000;
  }
  return net;
}

std::string difference(torch::nn::Module& found) {
  const auto expected = filled();
  const auto theirs = state_dict(view_of(*expected)), ours = state_dict(view_of(found));
  for (std::size_t i = 0; i < theirs.size(); ++i)
    if (!torch::equal(theirs[i].tensor, ours[i].tensor)) return theirs[i].name;
  return {};
}

Names files_in(const Path& folder) {
  return real_file_system().list(folder);
}

TEST(WeightFiles, ComeBackFromOneFileOrSeveral) {
  for (const auto max_shard_bytes : {kOneFile, kShards}) {
    const TemporaryFolder home;
    save_weights(tensors_of(*filled()), home.path() / "new" / "folder", max_shard_bytes);
    NetImpl net;
    EXPECT_TRUE(load_checkpoint_in_model(net, home.path() / "new" / "folder").fits());
    EXPECT_EQ(difference(net), "");
  }
}

TEST(WeightFiles, AreNamedAsTransformersDoesAndStaleOnesGo) {
  const TemporaryFolder home;
  home.write("config.json", "{}");
  home.write("model-00007-of-00009.safetensors", "of an earlier save");
  save_weights(tensors_of(*filled()), home.path(), kShards);
  const Names sharded = {"config.json",
                         "model-00001-of-00004.safetensors",
                         "model-00002-of-00004.safetensors",
                         "model-00003-of-00004.safetensors",
                         "model-00004-of-00004.safetensors",
                         "model.safetensors.index.json"};
  EXPECT_EQ(files_in(home.path()), sharded);
  save_weights(tensors_of(*filled()), home.path(), kOneFile);
  EXPECT_EQ(files_in(home.path()), (Names{"config.json", "model.safetensors"}));
  save_weights(tensors_of(*filled()), home.path(), kShards);
  EXPECT_EQ(files_in(home.path()), sharded);
}

TEST(WeightFiles, PythonReadsOursAndWeReadPythons) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder ours, theirs;
  save_weights(tensors_of(*filled()), ours.path() / "one", kOneFile);
  save_weights(tensors_of(*filled()), ours.path() / "several", kShards);
  const auto script = testing::reference_path("weights_live.py");
  const testing::RunOptions patient{
      .env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}};
  const auto read = testing::run_program(
      {testing::reference_python(), script.string(), "read", ours.path().string()}, patient);
  EXPECT_EQ(read.out, "2 folders\n") << read.err;
  const auto wrote = testing::run_program(
      {testing::reference_python(), script.string(), "write", theirs.path().string()}, patient);
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  ASSERT_EQ(files_in(theirs.path()),
            (Names{"bin", "bin_shards", "safetensors", "safetensors_shards"}));
  for (const auto& name : files_in(theirs.path())) {
    NetImpl net;
    EXPECT_TRUE(load_checkpoint_in_model(net, theirs.path() / name).fits()) << name;
    EXPECT_EQ(difference(net), "") << name;
  }
}

TEST(WeightFiles, KeepDevicesAndDtypesOfTheModel) {
  const TemporaryFolder home;
  save_weights(tensors_of(*filled()), home.path(), kOneFile);
  NetImpl net;
  net.to(torch::kDouble);
  load_checkpoint_in_model(net, home.path() / "model.safetensors");
  EXPECT_EQ(net.a->weight.scalar_type(), torch::kDouble);
  EXPECT_EQ(net.a->weight[9][9].item<double>(), 99);
}

TEST(WeightFiles, WhatDoesNotFitIsReportedAndStrictlyAnError) {
  const TemporaryFolder home;
  auto weights = tensors_of(*filled());
  weights[0].tensor = torch::zeros({10, 11});
  weights[1].name = "a.biased";
  save_weights(weights, home.path(), kOneFile);
  NetImpl net;
  torch::NoGradGuard no_grad;
  net.a->bias.fill_(7);
  try {
    load_checkpoint_in_model(net, home.path());
    FAIL();
  } catch (const CheckpointError& error) {
    const std::string message = error.what();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "missing: a.bias; unexpected: a.biased", message);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "a.weight: a tensor [10, 11] there", message);
  }
  const auto report = load_checkpoint_in_model(net, home.path(), {.strict = false});
  EXPECT_EQ(report.missing, Names{"a.bias"});
  EXPECT_EQ(report.unexpected, Names{"a.biased"});
  EXPECT_EQ(report.mismatched.size(), 1U);
  EXPECT_EQ(net.a->bias[0].item<float>(), 7);
  EXPECT_EQ(state_dict(view_of(net))[2].tensor[0][0].item<float>(), 2000) << "the rest is loaded";
}

TEST(WeightFiles, AnotherKindOfNumberIsReportedAndStrictlyAnError) {
  for (const auto& [type, says] : {std::pair{at::kInt, "int32 there, float32 in the model"},
                                   {at::kBool, "bool there, float32 in the model"},
                                   {at::kComplexFloat, "complex64 there, float32 in the model"}}) {
    const TemporaryFolder home;
    auto weights = tensors_of(*filled());
    weights[1].tensor = weights[1].tensor.detach().to(type);
    auto& tracked = weights.back();
    ASSERT_EQ(tracked.name, "norm.num_batches_tracked");
    tracked.tensor = tracked.tensor.to(at::kFloat);
    save_weights(weights, home.path(), kOneFile);
    NetImpl net;
    const auto said =
        message_of<CheckpointError>([&] { load_checkpoint_in_model(net, home.path()); });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                        std::string("of another kind of number: a.bias: ") + says + ".", said);
    const at::Tensor before = net.a->bias.clone();
    const auto report = load_checkpoint_in_model(net, home.path(), {.strict = false});
    EXPECT_EQ(report.mistyped.size(), 1U) << "a buffer is converted";
    EXPECT_TRUE(net.a->bias.equal(before)) << "nothing is converted in silence";
    EXPECT_EQ(net.a->weight[9][9].item<float>(), 99) << "the rest is loaded";
  }
}

struct HostileWeights {
  const char* what;
  std::function<Path(const TemporaryFolder&)> prepare;
  const char* says;
};

TEST(WeightFiles, BadOnesAreCheckpointErrors) {
  const HostileWeights cases[] = {
      {"nothing", [](const TemporaryFolder& home) { return home.path() / "none"; },
       "there are no weights"},
      {"an empty folder", [](const TemporaryFolder& home) { return home.path(); },
       "has no weights: none of"},
      {"another extension",
       [](const TemporaryFolder& home) { return home.write("model.gguf", "GGUF"); },
       "extension that is not known"},
      {"an index of nothing",
       [](const TemporaryFolder& home) {
         return home.write("model.safetensors.index.json",
                           R"({"metadata": {}, "weight_map": {"a": "model.safetensors"}})");
       },
       "No such file"},
      {"an index that leads away",
       [](const TemporaryFolder& home) {
         return home.write("model.safetensors.index.json",
                           R"({"metadata": {}, "weight_map": {"a": "../model.safetensors"}})");
       },
       "../model.safetensors"},
      {"an index of what the file lacks",
       [](const TemporaryFolder& home) {
         save_weights({{"b", torch::ones({2})}}, home.path(), kOneFile);
         return home.write("x.index.json",
                           R"({"metadata": {}, "weight_map": {"a": "model.safetensors"}})");
       },
       "lists 'a' in model.safetensors, but model.safetensors does not contain it"},
      {"a pickle that would run",
       [](const TemporaryFolder& home) {
         const auto path = home.path() / "model.bin";
         std::filesystem::copy_file(testing::reference_path("torch_archive/refused_function.pt"),
                                    path);
         return path;
       },
       ""},
  };
  for (const auto& [what, prepare, says] : cases) {
    const TemporaryFolder home;
    try {
      (void)map_weights(prepare(home));
      ADD_FAILURE() << what;
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << what;
    }
  }
  const TemporaryFolder home;
  EXPECT_THROW(save_weights({{"a", at::Tensor()}}, home.path(), kOneFile), CheckpointError);
  EXPECT_THROW(save_weights({{"a", torch::ones(1)}, {"a", torch::ones(1)}}, home.path(), kOneFile),
               UsageError);
  EXPECT_TRUE(files_in(home.path()).empty());
}

}  // namespace
}  // namespace accelerate
