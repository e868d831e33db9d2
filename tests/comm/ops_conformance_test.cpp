// What upstream's own test_ops.py asks of the collectives, on 1 to 4 ranks, and its checks of what
// ranks disagree about.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/base/error.h"
#include "accelerate/comm/objects.h"
#include "accelerate/comm/operations.h"
#include "accelerate/comm/tensor_checks.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::kind_and_message_of;
using testing::run_ranks;
using Data = std::map<std::string, at::Tensor>;

class Ops : public ::testing::TestWithParam<int> {
 protected:
  static void on_ranks(const std::function<void(Communicator&)>& body) {
    run_ranks(GetParam(), body);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Ops, ::testing::Values(1, 2, 3, 4));

// size() values that count on over the ranks: 1, 2 and 3, 4 on two.
at::Tensor create_tensor(const Communicator& comm) {
  return torch::arange(comm.size()) + 1.0 + comm.size() * comm.rank();
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_P(Ops, GatherCountsFromOneToTheSquareOfTheRanks) {
  on_ranks([](Communicator& comm) {
    const auto all = gather(comm, create_tensor(comm));
    EXPECT_TRUE(all.equal(torch::arange(1.0, comm.size() * comm.size() + 1.0)));
  });
}

TEST_P(Ops, GatherObjectIsAFlatList) {
  on_ranks([](Communicator& comm) {
    const auto all = gather_object(comm, std::vector<int>{comm.rank()});
    ASSERT_EQ(all.size(), static_cast<std::size_t>(comm.size()));
    for (int rank = 0; rank < comm.size(); ++rank)
      EXPECT_EQ(all[static_cast<std::size_t>(rank)], rank);
    const std::vector<std::string> some(static_cast<std::size_t>(comm.rank()), "x");
    EXPECT_EQ(gather_object(comm, some).size(),
              static_cast<std::size_t>(comm.size() * (comm.size() - 1) / 2));
  });
}

TEST_P(Ops, GatherTakesTensorsThatAreNotContiguous) {
  on_ranks([](Communicator& comm) {
    const auto tensor = torch::arange(12).view({4, 3}).t();
    ASSERT_FALSE(tensor.is_contiguous());
    EXPECT_TRUE(gather(comm, tensor).narrow(0, 0, 3).equal(tensor));
  });
}

TEST_P(Ops, BroadcastTakesTheFirstRanks) {
  on_ranks([](Communicator& comm) {
    EXPECT_TRUE(broadcast(comm, create_tensor(comm)).equal(torch::arange(1.0, comm.size() + 1.0)));
  });
}

TEST_P(Ops, BroadcastObjectListReplacesItsElements) {
  on_ranks([](Communicator& comm) {
    std::vector<std::string> list(static_cast<std::size_t>(comm.rank() + 1), "mine");
    if (comm.rank() == comm.size() - 1) list = {"a", "b"};
    broadcast_object_list(comm, list, comm.size() - 1);
    EXPECT_EQ(list, (std::vector<std::string>{"a", "b"}));
  });
}

TEST_P(Ops, PadGivesAllTheSizeOfTheLargest) {
  on_ranks([](Communicator& comm) {
    const auto mine = torch::arange(comm.size() + (comm.rank() == 0 ? 1 : 0));
    const auto padded = pad_across_processes(comm, mine);
    ASSERT_EQ(padded.size(0), comm.size() + 1);
    EXPECT_TRUE(padded.narrow(0, 0, mine.size(0)).equal(mine));
    if (comm.rank() != 0) {
      EXPECT_EQ(padded[comm.size()].item<int>(), 0);
    }
  });
}

TEST_P(Ops, ReduceIsSumMeanAndMaximum) {
  on_ranks([](Communicator& comm) {
    const int n = comm.size();
    const auto mine = create_tensor(comm);
    const auto mean = torch::arange(n) + 1.0 + n * (n - 1) / 2.0;
    EXPECT_TRUE(reduce(comm, mine, ReduceOp::sum).allclose(mean * n));
    EXPECT_TRUE(reduce(comm, mine, ReduceOp::mean).allclose(mean));
    EXPECT_TRUE(reduce(comm, mine, ReduceOp::max).equal(torch::arange(n) + 1.0 + n * (n - 1)));
  });
}

TEST_P(Ops, CopyTensorToDevicesNeedsNoShapeElsewhere) {
  on_ranks([](Communicator& comm) {
    const int last = comm.size() - 1;
    for (const auto& tensor : {torch::tensor({{1, 2, 3}}, at::kInt), torch::rand({2, 0, 3}),
                               torch::tensor(true), torch::ones({3}, at::kBFloat16)}) {
      const auto got = copy_tensor_to_devices(comm, comm.rank() == last ? tensor : at::Tensor());
      EXPECT_EQ(got.scalar_type(), tensor.scalar_type());
      EXPECT_TRUE(got.sizes() == tensor.sizes());
      EXPECT_EQ(got.numel(), tensor.numel());
    }
    const auto got =
        copy_tensor_to_devices(comm, comm.rank() == 0 ? torch::tensor({1, 2, 3}) : at::Tensor());
    EXPECT_TRUE(got.equal(torch::tensor({1, 2, 3})));
    expect_parts(kind_and_message_of([&] { (void)copy_tensor_to_devices(comm); }),
                 {"CommError", "none brought one"});
  });
}

TEST(OpsDisagree, CopyTensorToDevicesNamesTheRanksThatBroughtOne) {
  run_ranks(3, [](Communicator& comm) {
    const auto mine = comm.rank() > 0 ? torch::ones({1}) : at::Tensor();
    expect_parts(kind_and_message_of([&] { (void)copy_tensor_to_devices(comm, mine); }),
                 {"CommError", "ranks 1, 2 brought one each"});
  });
}

// The shapes of upstream's test_op_checker, and then some.
TEST(OpsDisagree, EveryRankLearnsTheOperationAndAllShapes) {
  run_ranks(2, [](Communicator& comm) {
    const bool first = comm.rank() == 0;
    const Data five{{"tensor", first ? torch::zeros({1, 5}) : torch::zeros({1, 1, 6})}};
    const Data ten{{"tensor", first ? torch::zeros({1, 5}) : torch::zeros({1, 2, 5})}};
    const at::Tensor missing = first ? torch::ones({2}) : at::Tensor();
    const auto types = torch::ones({2}, first ? at::kFloat : at::kLong);
    const auto sizes = torch::ones({first ? 1 : 2});
    const std::vector<at::Tensor> numbers(first ? 1 : 2, torch::ones({1}));
    struct Case {
      std::function<void()> call;
      std::vector<std::string> parts;
    };
    const std::vector<Case> cases = {
        {[&] { (void)pad_across_processes(comm, five); },
         {"CommError: pad_across_processes",
          "rank 0: pad_across_processes along dim 0 of Float[0, 5]",
          "rank 1: pad_across_processes along dim 0 of Float[0, 1, 6]"}},
        {[&] { (void)reduce(comm, ten); },
         {"CommError: reduce(mean)", "rank 0: reduce(mean) of Float[1, 5]",
          "rank 1: reduce(mean) of Float[1, 2, 5]"}},
        {[&] { (void)broadcast(comm, ten); },
         {"CommError: broadcast from rank 0", "Float[1, 5]", "Float[1, 2, 5]"}},
        {[&] { (void)gather(comm, ten); }, {"CommError: gather", "Float[1, 5]", "Float[1, 2, 5]"}},
        {[&] { (void)gather(comm, missing); },
         {"CommError: gather", "Float[2]", "rank 1: gather of an undefined tensor"}},
        {[&] { (void)pad_across_processes(comm, missing); }, {"an undefined tensor"}},
        {[&] { (void)gather(comm, types); },
         {"Float[2]", "Long[2]\nTensors of unequal dtype: convert them to one dtype first"}},
        {[&] { (void)gather(comm, sizes); },
         {"Float[1]", "Float[2]\nTensors of unequal size: call pad_across_processes first"}},
        {[&] { (void)gather(comm, numbers); }, {"rank 1: gather of Float[1], Float[1]"}},
        {[&] { first ? (void)gather(comm, types) : (void)reduce(comm, types); },
         {"rank 0: gather of Float[2]", "rank 1: reduce(mean) of Long[2]"}},
        {[&] { (void)broadcast_object(comm, 7, comm.rank()); },
         {"rank 0: broadcast_object from rank 0", "rank 1: broadcast_object from rank 1"}},
    };
    for (const auto& one : cases) expect_parts(kind_and_message_of(one.call), one.parts);
    const std::string of_types = kind_and_message_of([&] { (void)gather(comm, types); });
    EXPECT_EQ(of_types.find("pad_across_processes"), std::string::npos) << of_types;
    EXPECT_EQ(gather(comm, torch::ones({1})).size(0), 2) << "the group works afterwards";
  });
}

TEST(OpsDisagree, DebugModeNamesATensorOnAnotherDevice) {
  const auto meta = torch::ones({2}, at::kMeta);
  expect_parts(
      kind_and_message_of([&] { require_device({torch::ones({1}), meta}, c10::kCPU, "gather"); }),
      {"UsageError: gather", "on meta", "computes on cpu", "send_to_device"});
  require_device({at::Tensor(), torch::ones({1})}, c10::kCPU, "gather");
}

}  // namespace
}  // namespace accelerate
