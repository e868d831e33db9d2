#include "accelerate/tensor/compat/lent_storage.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "tests/support/errors.h"

namespace accelerate::compat {
namespace {

using accelerate::testing::message_of;

// Lends its memory to whoever asks, and remembers who did.
struct Lender final : StorageOwner {
  Lender() : memory(torch::arange(6, torch::kFloat)), storage(*this, 24, at::kCPU) {
    storage.withdraw("the values are not here");
  }
  void before_use(const OperatorUse& use) noexcept override {
    uses.push_back(std::string(use.name) + (use.writes ? " writes" : ""));
    calls.push_back(use.outermost);
    if (lends) storage.lend(memory.data_ptr());
  }
  at::Tensor memory;
  LentStorage storage;
  bool lends = true;
  std::vector<std::string> uses;
  std::vector<std::uint64_t> calls;
};

TEST(LentStorage, AnOperatorFindsMemoryThatItsOwnerLendsJustInTime) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {2, 3}, at::kFloat);
  const OperatorWatch watch;
  EXPECT_EQ(tensor.sum().item<float>(), 15);
  EXPECT_TRUE(lender.storage.is_there());
}

TEST(LentStorage, WhatSlipsPastTheWatchGetsTheOwnersSentence) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {6}, at::kFloat);
  const auto sentence = "the values are not here";
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, sentence,
                      message_of<c10::Error>([&] { (void)tensor.data_ptr<float>(); }));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, sentence,
                      message_of<c10::Error>([&] { (void)tensor.sum(); }));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, sentence,
                      message_of<c10::Error>([&] { (void)tensor.accessor<float, 1>(); }));
}

TEST(LentStorage, WithdrawnMemoryIsGoneForTensorsThatHadIt) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {6}, at::kFloat);
  lender.storage.lend(lender.memory.data_ptr());
  EXPECT_EQ(tensor.sum().item<float>(), 15);
  lender.storage.withdraw("gone again");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "gone again",
                      message_of<c10::Error>([&] { (void)tensor.sum(); }));
}

TEST(LentStorage, TensorsThatOutliveItThrow) {
  at::Tensor tensor;
  {
    Lender lender;
    tensor = lender.storage.tensor(0, {6}, at::kFloat);
  }
  EXPECT_EQ(LentStorage::owner_of(tensor), nullptr);
  EXPECT_THROW((void)tensor.sum(), c10::Error);
}

TEST(OperatorWatch, ViewsAskForNothingAndWhatReadsThemDoes) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {2, 3}, at::kFloat);
  const OperatorWatch watch;
  const auto view = tensor.t().view({3, 2}).detach();
  (void)tensor.size(0);
  EXPECT_TRUE(lender.uses.empty());
  (void)torch::relu(view);
  EXPECT_EQ(lender.uses.front(), "aten::relu");
}

TEST(OperatorWatch, ForwardAndBackwardOfAMatrixProductReadItsWeight) {
  Lender lender;
  auto weight = lender.storage.tensor(0, {2, 3}, at::kFloat).requires_grad_();
  const OperatorWatch watch;
  const auto x = torch::ones({4, 3}).requires_grad_();
  const auto loss = at::linear(x, weight).sum();
  EXPECT_FALSE(lender.uses.empty());
  lender.uses.clear();
  lender.storage.withdraw("the values are not here");
  loss.backward();
  EXPECT_FALSE(lender.uses.empty());
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_TRUE(weight.is_leaf());
}

TEST(OperatorWatch, SaysWhichOperatorsWrite) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {6}, at::kFloat);
  const OperatorWatch watch;
  tensor.mul_(2);
  EXPECT_EQ(lender.uses.front(), "aten::mul_ writes");
  lender.uses.clear();
  (void)tensor.requires_grad_();
  EXPECT_TRUE(lender.uses.empty());
}

TEST(OperatorWatch, ListsOfTensorsAreLookedInto) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {6}, at::kFloat);
  const OperatorWatch watch;
  EXPECT_EQ(torch::cat({torch::zeros({2}), tensor}).sum().item<float>(), 15);
  EXPECT_EQ(at::_foreach_mul({tensor, tensor}, 2).front().sum().item<float>(), 30);
}

TEST(OperatorWatch, OperatorsOfOneCallAreKnownAsSuch) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {2, 3}, at::kFloat);
  const OperatorWatch watch;
  (void)at::linear(torch::ones({4, 3}), tensor);
  const auto first = lender.calls;
  ASSERT_GT(first.size(), 1u);
  EXPECT_EQ(first.front(), first.back());
  (void)tensor.sum();
  EXPECT_NE(lender.calls.back(), first.back());
}

TEST(OperatorWatch, IsOffWhenNobodyWatches) {
  Lender lender;
  const auto tensor = lender.storage.tensor(0, {6}, at::kFloat);
  {
    const OperatorWatch watch;
  }
  EXPECT_THROW((void)tensor.sum(), c10::Error);
  EXPECT_TRUE(lender.uses.empty());
}

TEST(OperatorWatch, OrdinaryTensorsHaveNoOwner) {
  EXPECT_EQ(LentStorage::owner_of(torch::ones({2})), nullptr);
  EXPECT_EQ(LentStorage::owner_of(at::Tensor()), nullptr);
}

}  // namespace
}  // namespace accelerate::compat
