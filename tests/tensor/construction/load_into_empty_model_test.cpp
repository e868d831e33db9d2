// Checkpoints into models that have no memory yet.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"
#include "tests/tensor/construction/models.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::TemporaryFolder;
using testing::UserNet;

UserNet user_net_on_meta(bool include_buffers = false) {
  const auto scope = init_empty_weights({.include_buffers = include_buffers});
  return UserNet();
}

std::vector<NamedTensor> weights_of(UserNet& net) {
  return state_dict(view_of(*net));
}

void expect_weights(UserNet& net, const std::vector<NamedTensor>& expected) {
  const auto ours = weights_of(net);
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_TRUE(ours[i].tensor.device().is_cpu()) << ours[i].name;
    EXPECT_TRUE(ours[i].tensor.equal(expected[i].tensor)) << ours[i].name;
  }
}

TEST(LoadIntoEmptyModel, EveryTensorGetsMemoryAndTheValuesOfTheCheckpoint) {
  const TemporaryFolder folder;
  UserNet saved;
  save_tensors(weights_of(saved), folder.path() / "model.safetensors");
  for (const bool include_buffers : {false, true}) {
    auto net = user_net_on_meta(include_buffers);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    EXPECT_TRUE(load_checkpoint_in_model(*net, folder.path()).fits());
    expect_weights(net, weights_of(saved));
    net(torch::zeros({1, 2}, torch::kLong)).sum().backward();
    optimizer.step();  // Its tensors are those of the model, and not those of the file.
    EXPECT_FALSE(net->head->weight.equal(saved->head->weight));
  }
}

TEST(LoadIntoEmptyModel, WhatSharedItsMemoryDoesSoAgain) {
  const TemporaryFolder folder;
  struct Twins : torch::nn::Module {
    Twins() { b->weight.set_data(a->weight); }
    torch::nn::Linear a = register_module("a", torch::nn::Linear(3, 3));
    torch::nn::Linear b = register_module("b", torch::nn::Linear(3, 3));
  };
  Twins saved;
  save_tensors(state_dict(view_of(saved)), folder.path() / "model.safetensors");
  const auto empty = [] {
    const auto scope = init_empty_weights();
    return std::make_shared<Twins>();
  }();
  EXPECT_TRUE(load_checkpoint_in_model(*empty, folder.path()).fits());
  EXPECT_TRUE(empty->a->weight.equal(saved.a->weight));
  EXPECT_TRUE(empty->b->weight.is_alias_of(empty->a->weight));
  EXPECT_FALSE(empty->b->bias.is_alias_of(empty->a->bias));
}

TEST(LoadIntoEmptyModel, TheDtypeIsThatOfTheModel) {
  const TemporaryFolder folder;
  UserNet saved;
  saved->to(torch::kBFloat16);
  save_tensors(weights_of(saved), folder.path() / "model.safetensors");
  auto net = user_net_on_meta();
  load_checkpoint_in_model(*net, folder.path());
  EXPECT_EQ(net->head->weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(net->head->weight.equal(saved->head->weight.to(at::kFloat)));
}

TEST(LoadIntoEmptyModel, WhatTheCheckpointLacksIsMaterialisedAsConstructed) {
  const TemporaryFolder folder;
  torch::manual_seed(1);
  UserNet plain;
  UserNet saved;
  auto some = weights_of(saved);
  std::erase_if(some, [](const NamedTensor& one) { return one.name.starts_with("head."); });
  save_tensors(some, folder.path() / "model.safetensors");
  torch::manual_seed(1);
  auto net = user_net_on_meta();
  const auto report = load_checkpoint_in_model(*net, folder.path(), {.strict = false});
  EXPECT_EQ(report.missing, (std::vector<std::string>{"head.weight", "head.bias"}));
  EXPECT_TRUE(net->head->weight.is_meta());
  materialise(*net);
  EXPECT_TRUE(net->head->weight.equal(plain->head->weight));
  EXPECT_TRUE(net->embed->weight.equal(saved->embed->weight));
}

TEST(LoadIntoEmptyModel, ACheckpointThatDoesNotFitLeavesTheModelEmpty) {
  const TemporaryFolder folder;
  UserNet saved;
  auto others = weights_of(saved);
  others[0].tensor = torch::zeros({3, 3});
  others.push_back({"tail.weight", torch::zeros({1})});
  save_tensors(others, folder.path() / "model.safetensors");
  auto net = user_net_on_meta();
  const auto said =
      message_of<CheckpointError>([&] { (void)load_checkpoint_in_model(*net, folder.path()); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "unexpected: tail.weight", said);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "of another shape: ", said);
  EXPECT_TRUE(net->head->weight.is_meta());
}

}  // namespace
}  // namespace accelerate
