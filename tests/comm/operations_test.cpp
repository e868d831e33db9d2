// gather, reduce, broadcast, pad and objects on nested values.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/base/error.h"
#include "accelerate/comm/objects.h"
#include "accelerate/comm/operations.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks;

struct Batch {
  at::Tensor ids, mask;
  std::string note;
};
void visit_tensors(Batch& batch, auto&& fn) {
  fn(batch.ids);
  fn(batch.mask);
}

TEST(Operations, GatherConcatenatesInRankOrder) {
  run_ranks(3, [](Communicator& comm) {
    const auto all = gather(comm, torch::arange(3) + comm.rank() * 3);
    EXPECT_TRUE(all.equal(torch::arange(9)));
    EXPECT_TRUE(gather(comm, torch::tensor(comm.rank())).equal(torch::tensor({0, 1, 2})));
  });
}

TEST(Operations, GatherTakesNonContiguousTensorsAndUserStructs) {
  run_ranks(2, [](Communicator& comm) {
    Batch batch{torch::arange(6).reshape({2, 3}).t(), torch::full({1}, comm.rank()), "kept"};
    const auto all = gather(comm, batch);
    EXPECT_EQ(all.ids.sizes(), (std::vector<int64_t>{6, 2}));
    EXPECT_EQ(all.ids[4][1].item<int>(), 4);
    EXPECT_EQ(all.mask[1].item<int>(), 1);
    EXPECT_EQ(all.note, "kept");
    EXPECT_EQ(batch.mask.size(0), 1) << "the argument is left alone";
  });
}

TEST(Operations, ConjugateAndNegativeViewsKeepTheirValues) {
  run_ranks(2, [](Communicator& comm) {
    const auto value = torch::complex(torch::ones({2}), torch::full({2}, 3.0F));
    EXPECT_TRUE(gather(comm, value.conj())[3].equal(value.conj()[1].resolve_conj()));
    EXPECT_EQ(gather(comm, torch::imag(value.conj()))[0].item<float>(), -3.0F);
    EXPECT_THROW((void)comm.broadcast(value.conj(), 0), UsageError);
    EXPECT_THROW((void)gather(comm, torch::ones({2}).to_sparse()), UsageError);
    EXPECT_THROW((void)reduce(comm, torch::ones({2}, at::kMeta)), UsageError);
  });
}

TEST(Operations, ReduceIsSumMeanMaxTimesScale) {
  run_ranks(2, [](Communicator& comm) {
    const auto mine = comm.rank() == 0 ? torch::tensor({1.0, 2.0}) : torch::tensor({3.0, 4.0});
    EXPECT_TRUE(reduce(comm, mine, ReduceOp::sum).equal(torch::tensor({4.0, 6.0})));
    EXPECT_TRUE(reduce(comm, mine).equal(torch::tensor({2.0, 3.0})));
    EXPECT_TRUE(reduce(comm, mine, ReduceOp::max).equal(torch::tensor({3.0, 4.0})));
    EXPECT_TRUE(reduce(comm, mine, ReduceOp::sum, 0.5).equal(torch::tensor({2.0, 3.0})));
  });
}

TEST(Operations, BroadcastTakesTheValuesOfTheSource) {
  run_ranks(3, [](Communicator& comm) {
    std::map<std::string, at::Tensor> value = {{"a", torch::full({2}, comm.rank())},
                                               {"b", torch::full({1}, 10 * comm.rank())}};
    const auto got = broadcast(comm, value, 2);
    EXPECT_EQ(got.at("a")[0].item<int>(), 2);
    EXPECT_EQ(got.at("b")[0].item<int>(), 20);
  });
}

TEST(Operations, PadGrowsToTheLargestRank) {
  run_ranks(3, [](Communicator& comm) {
    const auto mine = torch::ones({comm.rank() + 2, 2});
    const auto tail = pad_across_processes(comm, mine, {.pad_index = 7});
    EXPECT_EQ(tail.size(0), 4);
    EXPECT_TRUE(tail.narrow(0, 0, comm.rank() + 2).eq(1).all().item<bool>());
    if (comm.rank() < 2) {
      EXPECT_EQ(tail[3][0].item<int>(), 7);
    }
    const auto head = pad_across_processes(comm, mine, {.pad_first = true});
    EXPECT_EQ(head[3][0].item<int>(), 1);
    if (comm.rank() < 2) {
      EXPECT_EQ(head[0][0].item<int>(), 0);
    }
    const auto untouched = pad_across_processes(comm, torch::ones({1}), {.dim = 3});
    EXPECT_EQ(untouched.size(0), 1);
  });
}

TEST(Operations, SliceTensorsTakesTheSameRowsOfEach) {
  const Batch batch{torch::arange(8).reshape({4, 2}), torch::arange(4), "kept"};
  const auto rows = slice_tensors(batch, 1, 3);
  EXPECT_TRUE(rows.ids.equal(torch::tensor({2, 3, 4, 5}).reshape({2, 2})));
  EXPECT_TRUE(rows.mask.equal(torch::tensor({1, 2})));
  EXPECT_EQ(rows.note, "kept");
  EXPECT_EQ(batch.mask.size(0), 4) << "the argument is left alone";
}

TEST(Operations, PadRefusesOtherDimensionsThatDiffer) {
  run_ranks(2, [](Communicator& comm) {
    EXPECT_THROW((void)pad_across_processes(comm, torch::ones({2, comm.rank() + 1})), CommError);
  });
}

TEST(Operations, ObjectsOfUnequalLengthTravel) {
  run_ranks(3, [](Communicator& comm) {
    const std::string word(static_cast<std::size_t>(comm.rank()), 'x');
    const auto all = gather_object(comm, word);
    ASSERT_EQ(all.size(), 3u);
    for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(all[r].size(), r);
    const std::map<std::string, int> mine = {{"rank", comm.rank()}};
    EXPECT_EQ(broadcast_object(comm, mine, 1).at("rank"), 1);
    EXPECT_EQ(gather_bytes(comm, "")[2], "");
  });
}

TEST(Operations, AnObjectOfAnotherTypeIsACommError) {
  run_ranks(2, [](Communicator& comm) {
    const auto bytes = detail::to_cbor(std::string("text"));
    EXPECT_THROW((void)detail::from_cbor<int>(bytes, 1), CommError);
    EXPECT_THROW((void)detail::from_cbor<int>("\xff\xff", 1), CommError);
    comm.barrier();
  });
}

TEST(Operations, UndefinedTensorsAreRefusedBeforeAnyoneWaits) {
  run_ranks(2,
            [](Communicator& comm) { EXPECT_THROW((void)gather(comm, at::Tensor()), UsageError); });
}

}  // namespace
}  // namespace accelerate
