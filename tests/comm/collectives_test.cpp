// Every collective of a Communicator, over Gloo with ranks as threads, and for a group of one.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicator.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks;

class Collectives : public ::testing::TestWithParam<int> {};

TEST_P(Collectives, AllReduceGivesEveryRankTheSame) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong,
                             at::kShort, at::kChar, at::kByte, at::kComplexFloat}) {
      at::Tensor sum = torch::full({3}, comm.rank() + 1, dtype);
      comm.all_reduce(sum, ReduceOp::sum).wait();
      EXPECT_TRUE(sum.eq(torch::full({3}, n * (n + 1) / 2, dtype)).all().item<bool>()) << dtype;
    }
    at::Tensor most = torch::full({2}, comm.rank());
    comm.all_reduce(most, ReduceOp::max).wait();
    EXPECT_EQ(most[0].item<int>(), n - 1);
    at::Tensor least = torch::full({2}, comm.rank() + 5);
    comm.all_reduce(least, ReduceOp::min).wait();
    EXPECT_EQ(least[1].item<int>(), 5);
    at::Tensor mean = torch::full({2}, static_cast<double>(comm.rank()), at::kDouble);
    comm.all_reduce(mean, ReduceOp::mean).wait();
    EXPECT_DOUBLE_EQ(mean[0].item<double>(), (n - 1) / 2.0);
    at::Tensor product = torch::full({1}, comm.rank() + 1, at::kLong);
    comm.all_reduce(product, ReduceOp::product).wait();
    EXPECT_EQ(product.item<int64_t>(), n == 1 ? 1 : n == 2 ? 2 : 6);
  });
}

TEST_P(Collectives, BoolIsReducedAsTrueOrFalse) {
  run_ranks(GetParam(), [](Communicator& comm) {
    at::Tensor flag = torch::full({1}, comm.rank() == 0, at::kBool);
    comm.all_reduce(flag, ReduceOp::sum).wait();
    EXPECT_TRUE(flag.item<bool>());
  });
}

struct BitwiseRow {
  ReduceOp op;
  int64_t (*combine)(int64_t, int64_t);
};

TEST_P(Collectives, BitsOfIntegersAndBoolAreReduced) {
  const int n = GetParam();
  const BitwiseRow rows[] = {
      {ReduceOp::band, [](int64_t a, int64_t b) { return a & b; }},
      {ReduceOp::bor, [](int64_t a, int64_t b) { return a | b; }},
      {ReduceOp::bxor, [](int64_t a, int64_t b) { return a ^ b; }},
  };
  run_ranks(n, [&](Communicator& comm) {
    const auto value = [](int rank) { return int64_t{0b0110101} + 9 * rank; };
    for (const auto& row : rows) {
      int64_t expected = value(0);
      for (int r = 1; r < n; ++r) expected = row.combine(expected, value(r));
      for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
        at::Tensor bits = torch::full({3}, value(comm.rank()), dtype);
        comm.all_reduce(bits, row.op).wait();
        EXPECT_TRUE(bits.eq(expected).all().item<bool>()) << to_string(row.op) << " of " << dtype;
      }
      at::Tensor flag = torch::full({1}, comm.rank() != 1, at::kBool);  // all but rank 1 say yes
      comm.all_reduce(flag, row.op).wait();
      int64_t yes = 1;
      for (int r = 1; r < n; ++r) yes = row.combine(yes, r != 1);
      EXPECT_EQ(flag.item<bool>(), yes != 0) << to_string(row.op) << " of bool";
    }
  });
}

TEST_P(Collectives, GatherScatterBroadcastMoveEveryDtype) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    for (const auto dtype : {at::kFloat, at::kShort, at::kBool, at::kComplexDouble}) {
      const at::Tensor mine = torch::full({2}, comm.rank(), dtype);
      at::Tensor all = torch::empty({n, 2}, dtype);
      comm.all_gather(all, mine).wait();
      for (int r = 0; r < n; ++r)
        EXPECT_TRUE(all[r].eq(torch::full({2}, r, dtype)).all().item<bool>());

      at::Tensor root = torch::full({2}, comm.rank() + 1, dtype);
      comm.broadcast(root, n - 1).wait();
      EXPECT_TRUE(root.eq(torch::full({2}, n, dtype)).all().item<bool>());
    }
    std::vector<at::Tensor> parts;
    if (comm.rank() == 0) {
      for (int r = 0; r < n; ++r) parts.push_back(torch::full({2}, 10.0 * r));
    }
    at::Tensor part = torch::empty({2});
    comm.scatter(part, comm.rank() == 0 ? parts : std::vector<at::Tensor>{}, 0).wait();
    EXPECT_EQ(part[1].item<int>(), 10 * comm.rank());
    comm.gather(parts, part + 1, 0).wait();
    for (std::size_t r = 0; r < parts.size(); ++r)
      EXPECT_EQ(parts[r][0].item<int>(), 10 * static_cast<int>(r) + 1);
  });
}

TEST_P(Collectives, ReduceScatterAndAllToAllExchangeParts) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    const at::Tensor whole = torch::arange(2 * n, at::kFloat) + comm.rank();
    at::Tensor part = torch::empty({2});
    comm.reduce_scatter(part, whole, ReduceOp::sum).wait();
    const double offset = n * (n - 1) / 2.0;
    EXPECT_DOUBLE_EQ(part[0].item<double>(), n * 2.0 * comm.rank() + offset);

    at::Tensor received = torch::empty({n});
    comm.all_to_all(received, torch::arange(n, at::kFloat) + 100 * comm.rank()).wait();
    for (int r = 0; r < n; ++r) EXPECT_EQ(received[r].item<int>(), 100 * r + comm.rank());
  });
}

TEST_P(Collectives, ReduceScatterTakesPartsOfAnyShape) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    for (const auto dtype : {at::kFloat, at::kComplexFloat}) {
      at::Tensor part = torch::zeros({2, 3}, dtype);
      comm.reduce_scatter(part, torch::ones({n, 6}, dtype), ReduceOp::sum).wait();
      EXPECT_TRUE(part.eq(torch::full({2, 3}, n, dtype)).all().item<bool>()) << dtype;
    }
  });
}

TEST_P(Collectives, ReduceGivesTheResultToOne) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    at::Tensor value = torch::full({4}, 2.0);
    comm.reduce(value, n - 1, ReduceOp::sum).wait();
    if (comm.rank() == n - 1) {
      EXPECT_EQ(value[0].item<double>(), 2.0 * n);
    }
  });
}

TEST_P(Collectives, ManyOperationsInFlightFinishInAnyOrderOfWaiting) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> pending;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(torch::full({1000 + i}, static_cast<double>(i)));
      pending.push_back(comm.all_reduce(tensors.back(), ReduceOp::sum));
    }
    for (int i = 19; i >= 0; --i) {
      pending[static_cast<std::size_t>(i)].wait();
      EXPECT_EQ(tensors[static_cast<std::size_t>(i)][7].item<double>(), i * n);
      EXPECT_TRUE(pending[static_cast<std::size_t>(i)].is_completed());
    }
  });
}

TEST_P(Collectives, EmptyTensorsAreFine) {
  const int n = GetParam();
  run_ranks(n, [n](Communicator& comm) {
    at::Tensor empty = torch::empty({0});
    comm.all_reduce(empty, ReduceOp::sum).wait();
    comm.broadcast(empty, 0).wait();
    at::Tensor all = torch::empty({n, 0});
    comm.all_gather(all, empty).wait();
    comm.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3));

TEST(Communicator, SendAndReceiveMatchByTag) {
  run_ranks(2, [](Communicator& comm) {
    at::Tensor a = torch::full({3}, 1.0), b = torch::full({3}, 2.0);
    if (comm.rank() == 0) {
      auto first = comm.send(a, 1, 7);
      auto second = comm.send(b, 1, 8);
      first.wait();
      second.wait();
    } else {
      at::Tensor later = torch::empty({3}), earlier = torch::empty({3});
      comm.receive(later, 0, 8).wait();
      comm.receive(earlier, 0, 7).wait();
      EXPECT_EQ(later[0].item<double>(), 2.0);
      EXPECT_EQ(earlier[0].item<double>(), 1.0);
    }
  });
}

TEST(Communicator, SplitMakesGroupsThatDoNotMix) {
  run_ranks(4, [](Communicator& comm) {
    const auto even = comm.split({0, 2});
    const auto odd = comm.split({3, 1});
    const auto alone = comm.split({2});
    EXPECT_EQ(even != nullptr, comm.rank() % 2 == 0);
    EXPECT_EQ(alone != nullptr, comm.rank() == 2);
    Communicator& mine = even ? *even : *odd;
    at::Tensor sum = torch::full({1}, comm.rank());
    mine.all_reduce(sum, ReduceOp::sum).wait();
    EXPECT_EQ(sum.item<int>(), comm.rank() % 2 == 0 ? 2 : 4);
    if (odd) {
      EXPECT_EQ(odd->rank(), comm.rank() == 3 ? 0 : 1);
    }
  });
}

TEST(Communicator, WrongRanksSizesAndDevicesAreUsageErrors) {
  run_ranks(2, [](Communicator& comm) {
    EXPECT_THROW((void)comm.broadcast(torch::ones({2}), 2), UsageError);
    EXPECT_THROW((void)comm.split({0, 0}), UsageError);
    EXPECT_THROW((void)comm.all_gather(torch::empty({3}), torch::ones({2})), UsageError);
    EXPECT_THROW((void)comm.all_gather(torch::empty({4}, at::kInt), torch::ones({2})), UsageError);
    EXPECT_THROW((void)comm.all_reduce(torch::ones({2, 3}).t(), ReduceOp::sum), UsageError);
    EXPECT_THROW((void)comm.all_reduce(torch::empty({2}, at::kMeta), ReduceOp::sum), UsageError);
    EXPECT_THROW((void)comm.all_reduce(torch::ones({2}, at::kComplexFloat), ReduceOp::max),
                 UsageError);
    for (const auto op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
      for (const auto dtype : {at::kFloat, at::kBFloat16, at::kComplexFloat}) {
        EXPECT_THROW((void)comm.all_reduce(torch::ones({2}, dtype), op), UsageError);
      }
    }
    comm.barrier();
  });
}

}  // namespace
}  // namespace accelerate
