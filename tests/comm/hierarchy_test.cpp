// Collectives over hosts against a plain reference: every dtype, layout and chunk edge.
#include "accelerate/comm/hierarchical_communicator.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

#include "tests/support/hosts.h"

namespace accelerate {
namespace {

using Layout = std::vector<int>;
using testing::HostsOptions;
using testing::run_hosts;

const std::vector<ReduceOp> kArithmetic = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min,
                                           ReduceOp::max, ReduceOp::product};
const std::vector<ReduceOp> kBitwise = {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
const std::vector<at::ScalarType> kDtypes = {
    at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kFloat8_e5m2, at::kInt,
    at::kLong,  at::kShort,  at::kChar, at::kByte,     at::kBool,        at::kComplexFloat};

// Whole numbers from 1 to 5, so that sums are exact in any order.
at::Tensor value_of(int rank, int64_t size, at::ScalarType dtype) {
  return (torch::arange(size, at::kLong) * 7 + rank * 3)
      .remainder(5)
      .add(1)
      .to(at::kFloat)
      .to(dtype);
}

// The reduction of what all ranks hold, in a wide type and by one loop.
at::Tensor reference(int ranks, int64_t size, at::ScalarType dtype, ReduceOp op) {
  const bool whole = at::isIntegralType(dtype, true);
  const auto wide = at::isComplexType(dtype) ? at::kComplexDouble : whole ? at::kLong : at::kDouble;
  at::Tensor total = value_of(0, size, dtype).to(wide);
  for (int rank = 1; rank < ranks; ++rank) {
    const at::Tensor next = value_of(rank, size, dtype).to(wide);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::mean:
        total = total + next;
        break;
      case ReduceOp::min:
        total = at::minimum(total, next);
        break;
      case ReduceOp::max:
        total = at::maximum(total, next);
        break;
      case ReduceOp::product:
        total = total * next;
        break;
      case ReduceOp::band:
        total = total.bitwise_and(next);
        break;
      case ReduceOp::bor:
        total = total.bitwise_or(next);
        break;
      case ReduceOp::bxor:
        total = total.bitwise_xor(next);
        break;
    }
  }
  if (op == ReduceOp::mean) total = total / ranks;
  const bool as_wide = whole || at::isComplexType(dtype) || dtype == at::kDouble;
  return as_wide ? total.to(dtype) : total.to(at::kFloat).to(dtype);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

std::vector<ReduceOp> operations_for(at::ScalarType dtype) {
  if (at::isComplexType(dtype)) return {ReduceOp::sum, ReduceOp::mean};
  auto operations = kArithmetic;
  if (at::isIntegralType(dtype, true)) {
    std::erase(operations, ReduceOp::mean);
    operations.insert(operations.end(), kBitwise.begin(), kBitwise.end());
  }
  return operations;
}

class Hierarchical : public ::testing::TestWithParam<Layout> {
 protected:
  [[nodiscard]] int ranks() const { return static_cast<int>(GetParam().size()); }
  void run(const std::function<void(Communicator&)>& body, const HostsOptions& options = {}) {
    run_hosts(GetParam(), [&](const auto& comm) { body(*comm); }, options);
  }
};

TEST_P(Hierarchical, AllReduceReducesEveryDtypeByEveryOperation) {
  run([this](Communicator& comm) {
    for (const auto dtype : kDtypes) {
      for (const auto op : operations_for(dtype)) {
        at::Tensor tensor = value_of(comm.rank(), 37, dtype);
        comm.all_reduce(tensor, op).wait();
        EXPECT_TRUE(same_bits(tensor, reference(ranks(), 37, dtype, op)))
            << dtype << " " << to_string(op);
      }
    }
  });
}

TEST_P(Hierarchical, ReduceScatterReducesEveryDtypeByEveryOperation) {
  run([this](Communicator& comm) {
    for (const auto dtype : kDtypes) {
      for (const auto op : operations_for(dtype)) {
        const at::Tensor input = value_of(comm.rank(), ranks() * 9, dtype);
        const at::Tensor before = input.clone();
        at::Tensor output = torch::empty({9}, dtype);
        comm.reduce_scatter(output, input, op).wait();
        const at::Tensor whole = reference(ranks(), ranks() * 9, dtype, op);
        EXPECT_TRUE(same_bits(output, whole.narrow(0, 9 * comm.rank(), 9).contiguous()))
            << dtype << " " << to_string(op);
        EXPECT_TRUE(same_bits(input, before)) << "the input is the caller's";
      }
    }
  });
}

TEST_P(Hierarchical, AllGatherAndBroadcastMoveEveryDtype) {
  run([this](Communicator& comm) {
    for (const auto dtype : kDtypes) {
      at::Tensor all = torch::empty({ranks(), 11}, dtype);
      comm.all_gather(all, value_of(comm.rank(), 11, dtype)).wait();
      for (int rank = 0; rank < ranks(); ++rank) {
        EXPECT_TRUE(same_bits(all[rank].contiguous(), value_of(rank, 11, dtype))) << dtype;
        at::Tensor tensor = value_of(comm.rank(), 11, dtype);
        comm.broadcast(tensor, rank).wait();
        EXPECT_TRUE(same_bits(tensor, value_of(rank, 11, dtype))) << dtype << " from " << rank;
      }
    }
  });
}

// Chunks of 4 KiB are 1,024 floats; sums of more than 16 KiB go between hosts in slices.
struct Edges {
  std::int64_t chunk_bytes;
  std::vector<int64_t> sizes;
};
const std::vector<Edges> kEdges = {
    {4096, {1, 2, 3, 5, 1023, 1024, 1025, 2048, 7 * 1024 + 3}},
    {65536, {4095, 4096, 4097, 4099, 16383, 16384, 16385, 3 * 16384 + 4097}},
    {1, {5}},
};

TEST_P(Hierarchical, AllReduceAndBroadcastTakeSizesAroundEveryEdge) {
  for (const auto& edges : kEdges) {
    run(
        [&](Communicator& comm) {
          for (const int64_t size : edges.sizes) {
            at::Tensor sum = value_of(comm.rank(), size, at::kFloat);
            comm.all_reduce(sum, ReduceOp::sum).wait();
            EXPECT_TRUE(same_bits(sum, reference(ranks(), size, at::kFloat, ReduceOp::sum)))
                << size;
            at::Tensor tensor = value_of(comm.rank(), size, at::kFloat);
            comm.broadcast(tensor, ranks() - 1).wait();
            EXPECT_TRUE(same_bits(tensor, value_of(ranks() - 1, size, at::kFloat))) << size;
          }
        },
        {.chunk_bytes = edges.chunk_bytes});
  }
}

TEST_P(Hierarchical, AllGatherAndReduceScatterTakePartsAroundEveryEdge) {
  run([this](Communicator& comm) {
    const int64_t edge = 1024 / ranks();  // columns of a chunk of floats
    for (const int64_t part : {int64_t{1}, edge - 1, edge, edge + 1, 3 * edge + 2, 4 * edge + 1}) {
      at::Tensor all = torch::empty({ranks() * part});
      comm.all_gather(all, value_of(comm.rank(), part, at::kFloat)).wait();
      at::Tensor output = torch::empty({part});
      comm.reduce_scatter(output, value_of(comm.rank(), ranks() * part, at::kFloat), ReduceOp::sum)
          .wait();
      for (int rank = 0; rank < ranks(); ++rank) {
        EXPECT_TRUE(same_bits(all.narrow(0, rank * part, part), value_of(rank, part, at::kFloat)))
            << part;
      }
      const auto whole = reference(ranks(), ranks() * part, at::kFloat, ReduceOp::sum);
      EXPECT_TRUE(same_bits(output, whole.narrow(0, comm.rank() * part, part))) << part;
    }
  });
}

// Real numbers, whose sum depends on the order.
at::Tensor noise(int rank, int64_t size) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank) + 17);
  return at::randn({size}, generator, at::kFloat);
}

TEST_P(Hierarchical, EveryRankHoldsTheSameBits) {
  run(
      [this](Communicator& comm) {
        for (const int64_t size : {int64_t{100}, int64_t{5000}, int64_t{40001}}) {
          for (const auto dtype : {at::kFloat, at::kBFloat16}) {
            at::Tensor mean = noise(comm.rank(), size).to(dtype);
            comm.all_reduce(mean, ReduceOp::mean).wait();
            at::Tensor all = torch::empty({ranks(), size}, dtype);
            comm.all_gather(all, mean).wait();
            for (int rank = 0; rank < ranks(); ++rank) {
              EXPECT_TRUE(same_bits(all[rank].contiguous(), mean)) << size << " " << dtype;
            }
          }
        }
      },
      {.chunk_bytes = 65536});
}

TEST_P(Hierarchical, RanksMayWaitInAnyOrder) {
  run([this](Communicator& comm) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> pending;
    for (int i = 0; i < 12; ++i) {
      tensors.push_back(torch::full({900 * (i % 3) + 1}, static_cast<double>(i)));
      pending.push_back(comm.all_reduce(tensors.back(), ReduceOp::sum));
    }
    for (int i = 0; i < 12; ++i) {
      const auto at = static_cast<std::size_t>((i * 5 + comm.rank()) % 12);
      pending[at].wait();
      EXPECT_TRUE(pending[at].is_completed());
      EXPECT_EQ(tensors[at][0].item<double>(), static_cast<double>(at) * ranks());
    }
  });
}

TEST_P(Hierarchical, TheRestGoesToTheFlatGroup) {
  run([this](Communicator& comm) {
    const int last = ranks() - 1;
    at::Tensor sum = torch::full({3}, 2.0);
    comm.reduce(sum, last, ReduceOp::sum).wait();
    if (comm.rank() == last) {
      EXPECT_EQ(sum[0].item<double>(), 2.0 * ranks());
    }
    at::Tensor received = torch::empty({ranks()});
    comm.all_to_all(received, torch::arange(ranks(), at::kFloat) + 100 * comm.rank()).wait();
    EXPECT_EQ(received[last].item<int>(), 100 * last + comm.rank());
    std::vector<at::Tensor> parts;
    if (comm.rank() == 0) {
      for (int rank = 0; rank < ranks(); ++rank) parts.push_back(torch::full({2}, 10.0 * rank));
    }
    at::Tensor part = torch::empty({2});
    comm.scatter(part, parts, 0).wait();
    EXPECT_EQ(part[0].item<int>(), 10 * comm.rank());
    comm.gather(parts, part + 1, 0).wait();
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      EXPECT_EQ(parts[rank][1].item<int>(), 10 * static_cast<int>(rank) + 1);
    }
    at::Tensor message = torch::full({2}, 5.0);
    if (comm.rank() == 0) comm.send(message, last, 3).wait();
    if (comm.rank() == last) comm.receive(message.zero_(), 0, 3).wait();
    EXPECT_EQ(message[1].item<double>(), 5.0);
  });
}

TEST_P(Hierarchical, BarrierWaitsForEveryRank) {
  std::atomic<int> arrived{0};
  run([&](Communicator& comm) {
    for (int round = 1; round <= 5; ++round) {
      ++arrived;
      comm.barrier();
      EXPECT_GE(arrived.load(), round * ranks());
    }
  });
}

TEST_P(Hierarchical, EmptyTensorsAreFine) {
  run([this](Communicator& comm) {
    at::Tensor empty = torch::empty({0});
    comm.all_reduce(empty, ReduceOp::sum).wait();
    comm.broadcast(empty, 0).wait();
    comm.all_gather(torch::empty({ranks(), 0}), empty).wait();
    comm.reduce_scatter(torch::empty({0}), empty, ReduceOp::sum).wait();
    comm.barrier();
  });
}

TEST_P(Hierarchical, LeavesWithRequiresGradAndInferenceTensorsAreMemory) {
  run([this](Communicator& comm) {
    at::Tensor leaf = torch::full({3}, comm.rank() + 1.0).requires_grad_();
    comm.broadcast(leaf, 0).wait();
    EXPECT_EQ(leaf[0].item<double>(), 1.0);
    const c10::InferenceMode inference;
    at::Tensor tensor = torch::ones({3});
    comm.all_reduce(tensor, ReduceOp::sum).wait();
    EXPECT_EQ(tensor[2].item<double>(), ranks());
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Hierarchical,
                         ::testing::Values(Layout{0, 0, 1, 1}, Layout{0, 1, 0, 1},
                                           Layout{0, 0, 0, 1}, Layout{0, 1, 2},
                                           Layout{0, 1, 1, 2, 0}),
                         [](const auto& info) { return testing::layout_name(info.param); });

TEST(Hierarchy, AddsRanksOfAHostFirstAndThenHostsInTheirOrder) {
  run_hosts({0, 1, 0, 2, 1},
            [](const auto& comm) {
              for (const int64_t size : {int64_t{100}, int64_t{9001}}) {  // both ways between hosts
                const auto expected =
                    ((noise(0, size) + noise(2, size)) + (noise(1, size) + noise(4, size))) +
                    noise(3, size);
                at::Tensor sum = noise(comm->rank(), size);
                comm->all_reduce(sum, ReduceOp::sum).wait();
                EXPECT_TRUE(same_bits(sum, expected)) << size;
                at::Tensor part = torch::empty({size});
                at::Tensor whole = noise(comm->rank(), size).repeat({5});
                comm->reduce_scatter(part, whole, ReduceOp::sum).wait();
                EXPECT_TRUE(same_bits(part, expected))
                    << "reduce_scatter is all_reduce's part, " << size;
              }
            },
            {.chunk_bytes = 65536});
}

TEST(Hierarchy, SixteenBitTypesAreRoundedOnce) {
  run_hosts({0, 0, 1, 1}, [](const auto& comm) {
    // 256 + 1 is 256 in bf16, which has eight bits; the sum of all, 259, rounds to 260.
    at::Tensor sum = torch::full({5}, comm->rank() == 0 ? 256.0 : 1.0, at::kBFloat16);
    comm->all_reduce(sum, ReduceOp::sum).wait();
    EXPECT_EQ(sum[4].template item<float>(), 260.0F);
    // A sum of 240,000 is no fp16, its mean is.
    at::Tensor mean = torch::full({5}, 60000.0, at::kHalf);
    comm->all_reduce(mean, ReduceOp::mean).wait();
    EXPECT_EQ(mean[0].template item<float>(), 60000.0F);
    at::Tensor part = torch::empty({1}, at::kHalf);
    comm->reduce_scatter(part, torch::full({4}, 60000.0, at::kHalf), ReduceOp::mean).wait();
    EXPECT_EQ(part[0].template item<float>(), 60000.0F);
  });
}

}  // namespace
}  // namespace accelerate
