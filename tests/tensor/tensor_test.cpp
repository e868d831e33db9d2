// Nested values, seeds, dtypes, views of modules, weights in files.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/nested.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/support.h"

namespace user {
struct Batch {
  at::Tensor ids;
  std::vector<at::Tensor> more;
  std::string label;
};
void visit_tensors(Batch& batch, auto&& fn) {
  fn(batch.ids);
  accelerate::visit_tensors(batch.more, fn);
}
}  // namespace user

namespace accelerate {
namespace {

TEST(Nested, VisitsEveryTensorOfContainersOfContainers) {
  std::map<std::string, std::vector<std::pair<at::Tensor, std::optional<at::Tensor>>>> value;
  value["a"].push_back({torch::zeros({1}), torch::zeros({2})});
  value["b"].push_back({torch::zeros({3}), std::nullopt});
  EXPECT_EQ(collect_tensors(value).size(), 3u);
  const auto doubled = map_tensors(value, [](const at::Tensor& t) { return t + 1; });
  EXPECT_EQ(doubled.at("b")[0].first[0].item<int>(), 1);
  EXPECT_EQ(value.at("b")[0].first[0].item<int>(), 0) << "map_tensors leaves its argument alone";
}

TEST(Nested, TakesUserStructsAndLeavesOtherPartsAlone) {
  std::vector<user::Batch> batches = {{torch::ones({2}), {torch::ones({1})}, "kept"}};
  batches = map_tensors(batches, [](const at::Tensor& t) { return t * 3; });
  EXPECT_EQ(batches[0].more[0].item<int>(), 3);
  EXPECT_EQ(batches[0].label, "kept");
  std::tuple<at::Tensor, std::string> mixed{torch::ones({1}), "x"};
  EXPECT_EQ(collect_tensors(mixed).size(), 1u);
  static_assert(Nested<torch::data::Example<>> &&
                Nested<torch::OrderedDict<std::string, at::Tensor>>);
  static_assert(!Nested<int> && !Nested<std::string> && !Nested<std::vector<std::string>>);
}

TEST(Seed, TheSameSeedDrawsTheSameNumbers) {
  set_seed(42);
  EXPECT_EQ(initial_seed(), 42u);
  const auto first = torch::rand({3});
  set_seed(42);
  EXPECT_TRUE(first.equal(torch::rand({3})));
}

TEST(Seed, DeviceSpecificAddsTheRank) {
  const ScopedProcessIdentity identity({.rank = 3, .world_size = 4});
  set_seed(10, {.device_specific = true});
  EXPECT_EQ(initial_seed(), 13u);
}

TEST(DTypes, EveryTypeOfLibTorchThatTheFormatHasGoesThereAndBack) {
  for (const auto type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kComplexFloat, at::kUInt16, at::kUInt32, at::kUInt64,
        at::kFloat8_e5m2, at::kFloat8_e4m3fn, at::kFloat8_e8m0fnu, at::kFloat8_e5m2fnuz,
        at::kFloat8_e4m3fnuz}) {
    EXPECT_EQ(to_scalar_type(to_dtype(type)), type);
    EXPECT_EQ(bits_of(to_dtype(type)), 8 * c10::elementSize(type)) << c10::toString(type);
  }
  EXPECT_THROW((void)to_dtype(at::kComplexDouble), CheckpointError);
  EXPECT_THROW((void)to_scalar_type(DType::f6_e2m3), CheckpointError);
}

struct InnerImpl : torch::nn::Module {
  InnerImpl() {
    linear = register_module("linear", torch::nn::Linear(2, 2));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    alias = register_parameter("alias", linear->weight);
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor alias;
};
struct OuterImpl : torch::nn::Module {
  std::shared_ptr<InnerImpl> inner = register_module("inner", std::make_shared<InnerImpl>());
};

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> result;
  for (const auto& item : tensors) result.push_back(item.name);
  return result;
}

TEST(ModuleView, NamesAreThoseOfPythonsStateDictAlsoOnTheStack) {
  OuterImpl outer;
  const auto view = view_of(outer);
  EXPECT_EQ(names(view.parameters),
            (std::vector<std::string>{"inner.alias", "inner.linear.weight", "inner.linear.bias",
                                      "inner.norm.weight", "inner.norm.bias"}));
  EXPECT_EQ(names(view.buffers),
            (std::vector<std::string>{"inner.norm.running_mean", "inner.norm.running_var",
                                      "inner.norm.num_batches_tracked"}));
  EXPECT_EQ(without_duplicates(view.parameters).size(), 4u) << "the tied weight once";
  EXPECT_NE(view.class_name.find("OuterImpl"), std::string::npos);
}

TEST(ModuleView, TorchScriptModulesHaveOneToo) {
  torch::jit::Module script("Scale");
  script.register_parameter("factor", torch::ones({2}), false);
  script.register_buffer("offset", torch::zeros({2}));
  const auto view = view_of(script);
  EXPECT_EQ(names(view.parameters), (std::vector<std::string>{"factor"}));
  EXPECT_EQ(names(view.buffers), (std::vector<std::string>{"offset"}));
}

std::vector<std::string> modules_of(const ModuleView& view) {
  std::vector<std::string> result;
  for (const auto& module : view.modules) result.push_back(module.name + "=" + module.class_name);
  return result;
}

TEST(ModuleView, ListsModulesParentsFirstInTheOrderOfTheirRegistration) {
  struct Twice : torch::nn::Module {
    Twice() : Module("my::Twice") {
      auto layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(2, 2)));
      register_module("again", layers->ptr(0));
    }
  };
  Twice model;
  const auto view = view_of(model);
  EXPECT_EQ(
      modules_of(view),
      (std::vector<std::string>{"=my::Twice", "layers=torch::nn::SequentialImpl",
                                "layers.0=torch::nn::LinearImpl", "again=torch::nn::LinearImpl"}));
  EXPECT_EQ(view.modules[2].identity, view.modules[3].identity);
  EXPECT_NE(view.modules[0].identity, view.modules[1].identity);
}

TEST(ModuleView, ListsTheModulesOfTorchScriptByTheirQualifiedNames) {
  torch::jit::Module inner("__torch__.nets.___torch_mangle_3.Block");
  torch::jit::Module outer("__torch__.nets.Net");
  outer.register_module("block", inner);
  outer.register_module("same", inner);
  const auto view = view_of(outer);
  EXPECT_EQ(modules_of(view),
            (std::vector<std::string>{"=__torch__.nets.Net",
                                      "block=__torch__.nets.___torch_mangle_3.Block",
                                      "same=__torch__.nets.___torch_mangle_3.Block"}));
  EXPECT_EQ(view.modules[1].identity, view.modules[2].identity);
}

// As Python's safetensors writes and reads them.
TEST(Weights, OfFourBitsCountTwiceInTheFile) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "w.safetensors";
  const auto bytes = torch::arange(8, at::kByte).view({2, 4});
  save_tensors({{"x", bytes.view(at::kFloat4_e2m1fn_x2)}}, file);
  EXPECT_EQ(SafetensorsFile::open(file).at("x").shape, (std::vector<std::int64_t>{2, 8}));
  for (const auto& loaded : {load_tensors(file), map_tensors(file)}) {
    EXPECT_EQ(loaded.at(0).tensor.scalar_type(), at::kFloat4_e2m1fn_x2);
    EXPECT_TRUE(loaded.at(0).tensor.view(at::kByte).equal(bytes));
  }
  EXPECT_THROW(save_tensors({{"x", bytes.view(at::kFloat4_e2m1fn_x2)[0][0]}}, file),
               CheckpointError);
  const std::vector<std::byte> three(3);
  write_safetensors(real_file_system(), file, {{TensorSpec{"odd", DType::f4, {2, 3}}, three}});
  try {
    (void)load_tensors(file);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot load 'odd'", describe(error));
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "must be even", describe(error));
  }
}

TEST(Weights, ComeBackAsTheyWereWhateverTheirStridesAndDtypes) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "new" / "folders" / "w.safetensors";
  const std::vector<NamedTensor> tensors = {
      {"transposed", torch::arange(6).view({2, 3}).t()},
      {"bf16", torch::rand({3}).to(at::kBFloat16)},
      {"scalar", torch::tensor(2.5)},
      {"empty", torch::empty({0, 4})},
      {"conjugate", torch::rand({2}, at::kComplexFloat).conj()}};
  save_tensors(tensors, file);
  const auto loaded = load_tensors(file);
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : loaded) {
    for (const auto& [other, original] : tensors) {
      if (name == other) {
        EXPECT_EQ(tensor.sizes(), original.sizes()) << name;
        EXPECT_TRUE(tensor.equal(original.resolve_conj())) << name;
      }
    }
  }
}

TEST(Weights, WhatCannotBeSavedIsNamedAndLeavesNothing) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "w.safetensors";
  EXPECT_THROW(save_tensors({{"gone", at::Tensor()}}, file), CheckpointError);
  EXPECT_THROW(save_tensors({{"wide", torch::zeros({1}, at::kComplexDouble)}}, file),
               CheckpointError);
  EXPECT_THROW((void)load_tensors(file), CheckpointError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace accelerate
