#include "accelerate/tensor/write_mark.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace accelerate::detail {
namespace {

TEST(WriteMark, SeesWritesThatTheVersionCountsAndThoseThatItDoesNot) {
  const auto tensor = torch::arange(100, at::kDouble).view({10, 10});
  const WriteMark mark(tensor);
  EXPECT_FALSE(mark.is_written());
  tensor.data().add_(1);
  EXPECT_TRUE(mark.is_written());
  EXPECT_TRUE(mark.is_changed()) << "though the version did not move";
  const WriteMark again(tensor);
  tensor.add_(1);
  EXPECT_TRUE(again.is_written());
  EXPECT_TRUE(again.is_changed());
}

TEST(WriteMark, AWriteThatPutsBackWhatWasThereChangesNothing) {
  const auto tensor = torch::rand({7});
  const WriteMark mark(tensor);
  const auto own = tensor.clone();
  tensor.zero_();
  EXPECT_TRUE(mark.is_changed());
  tensor.copy_(own);
  EXPECT_FALSE(mark.is_changed());
  EXPECT_TRUE(mark.is_written());
}

TEST(WriteMark, TakesTensorsOfAnySizeStrideAndType) {
  const auto base = torch::arange(64).view({8, 8});
  int value = 100;  // Another one for each view of one base.
  for (const auto& tensor :
       {torch::empty({0}), torch::ones({}), torch::ones({3}, at::kBool), base.t(),
        base.slice(1, 0, 8, 7), base.select(1, 7), torch::ones({1}, at::kComplexDouble),
        torch::ones({1}).expand({5}).clone()}) {
    const WriteMark mark(tensor);
    EXPECT_FALSE(mark.is_written());
    if (tensor.numel() == 0) continue;
    torch::Tensor(tensor).data().zero_();
    torch::Tensor(tensor).data().fill_(++value);
    EXPECT_EQ(mark.is_changed(), tensor.scalar_type() != at::kBool) << tensor;
  }
}

}  // namespace
}  // namespace accelerate::detail
