// Every collective on every engine against a plain reference, with sizes at each edge where an
// engine begins to do something else, on memory of the group and on private memory.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicator.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::run_ranks;

struct Setting {
  Engine engine;
  int ranks;
};

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  return (info.param.ranks == 1 ? "single" : std::string(testing::to_string(info.param.engine))) +
         std::to_string(info.param.ranks);
}

// Where tensors lie: what the group's collectives use in place, private memory, or the one on even
// ranks and the other on odd ones.
enum class Memory { group, other, mixed };
constexpr Memory kMemories[] = {Memory::group, Memory::other, Memory::mixed};

at::Tensor empty(Communicator& comm, Memory memory, at::IntArrayRef sizes, at::ScalarType dtype) {
  const bool of_group =
      memory == Memory::group || (memory == Memory::mixed && comm.rank() % 2 == 0);
  return of_group ? comm.empty(sizes, dtype) : torch::empty(sizes, dtype);
}

// What rank `rank` brings: small whole numbers, so that sums are exact in every dtype, and no two
// neighbours or ranks alike.
at::Tensor values(int rank, std::int64_t count, at::ScalarType dtype) {
  const auto index = torch::arange(count, at::kInt);
  return ((index * 7 + rank * 3) % 11 + 1).to(dtype);
}

at::Tensor mine(Communicator& comm, Memory memory, std::int64_t count,
                at::ScalarType dtype = at::kFloat) {
  at::Tensor tensor = empty(comm, memory, {count}, dtype);
  tensor.copy_(values(comm.rank(), count, dtype));
  return tensor;
}

at::Tensor reduced(int ranks, std::int64_t count, at::ScalarType dtype, ReduceOp op) {
  at::Tensor result = values(0, count, at::kDouble);
  for (int rank = 1; rank < ranks; ++rank) {
    const auto next = values(rank, count, at::kDouble);
    switch (op) {
      case ReduceOp::min:
        result = torch::minimum(result, next);
        break;
      case ReduceOp::max:
        result = torch::maximum(result, next);
        break;
      case ReduceOp::product:
        result = result * next;
        break;
      default:
        result = result + next;
    }
  }
  if (op == ReduceOp::mean) result = result / ranks;
  return result.to(dtype);
}

// Floats at the edges of a vector, a cache line, a page; of what all ranks reduce alone (16 KiB)
// and what is used in place (64 KiB); of one slot (256 KiB, 16 KiB apart for many ranks), of the
// ring of slots (1 MiB), and beyond; streamed stores (16 MiB) have a test of their own.
std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> all = {1, 2, 3, 5, 15, 17, 1023};
  for (const std::int64_t edge : {4096, 16384, 65536, 262144}) {
    for (const std::int64_t step : {-1, 0, 1}) all.push_back(edge + step);
  }
  all.push_back(3 * 65536 + 777);
  all.push_back((std::int64_t{1} << 20) + 13);
  return all;
}

class CollectiveSuite : public ::testing::TestWithParam<Setting> {
 protected:
  // Runs `body` on all ranks for every size and kind of memory.
  void everywhere(const std::function<void(Communicator&, std::int64_t, Memory)>& body,
                  std::int64_t largest = std::int64_t{1} << 30) {
    run_ranks(GetParam().ranks,
              [&](Communicator& comm) {
                for (const std::int64_t count : sizes()) {
                  if (count > largest) continue;
                  for (const Memory memory : kMemories) {
                    SCOPED_TRACE(std::to_string(count) + " elements, memory " +
                                 std::to_string(static_cast<int>(memory)));
                    body(comm, count, memory);
                  }
                }
              },
              {.timeout = std::chrono::seconds(60), .engine = GetParam().engine});
  }
  void on_ranks(const std::function<void(Communicator&)>& body) {
    run_ranks(GetParam().ranks, body,
              {.timeout = std::chrono::seconds(60), .engine = GetParam().engine});
  }
};

TEST_P(CollectiveSuite, AllReduce) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    auto tensor = mine(comm, memory, count);
    comm.all_reduce(tensor, ReduceOp::sum).wait();
    EXPECT_TRUE(tensor.equal(reduced(comm.size(), count, at::kFloat, ReduceOp::sum)));
  });
}

TEST_P(CollectiveSuite, AllReduceOfEveryDtypeAndOperation) {
  on_ranks([](Communicator& comm) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong,
                             at::kShort, at::kChar, at::kByte}) {
      for (const auto op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max}) {
        if (op == ReduceOp::mean && at::isIntegralType(dtype, true)) continue;
        for (const std::int64_t count : {33, 70'001}) {
          for (const Memory memory : kMemories) {
            auto tensor = mine(comm, memory, count, dtype);
            comm.all_reduce(tensor, op).wait();
            const auto expected = reduced(comm.size(), count, dtype, op);
            EXPECT_TRUE(at::allclose(tensor.to(at::kDouble), expected.to(at::kDouble), 1e-2, 1e-3))
                << dtype << " " << to_string(op) << " " << count;
          }
        }
      }
    }
  });
}

// The order of the sum is that of the ranks, whatever the size and wherever the memory.
TEST_P(CollectiveSuite, SumsHaveTheSameBitsOnEveryRankAndEveryTime) {
  const bool in_order = GetParam().engine == Engine::shared_memory || GetParam().ranks <= 2;
  everywhere([in_order](Communicator& comm, std::int64_t count, Memory memory) {
    const auto of = [count](int rank) {
      return torch::sin(torch::arange(count, at::kFloat) * (rank + 1)) * 1e3F;
    };
    at::Tensor tensor = empty(comm, memory, {count}, at::kFloat);
    tensor.copy_(of(comm.rank()));
    comm.all_reduce(tensor, ReduceOp::sum).wait();
    at::Tensor of_first = tensor.clone();
    comm.broadcast(of_first, 0).wait();
    EXPECT_TRUE(of_first.equal(tensor));
    if (!in_order) return;
    at::Tensor expected = of(0);
    for (int rank = 1; rank < comm.size(); ++rank) expected += of(rank);
    EXPECT_TRUE(tensor.equal(expected));
  });
}

TEST_P(CollectiveSuite, Reduce) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    auto tensor = mine(comm, memory, count);
    const int root = static_cast<int>(count % comm.size());
    comm.reduce(tensor, root, ReduceOp::sum).wait();
    if (comm.rank() != root) return;
    EXPECT_TRUE(tensor.equal(reduced(comm.size(), count, at::kFloat, ReduceOp::sum)));
  });
}

TEST_P(CollectiveSuite, ResultsThatPassTheCacheBy) {
  on_ranks([](Communicator& comm) {
    const std::int64_t count = (std::int64_t{4} << 20) + 13;
    auto tensor = mine(comm, Memory::other, count);
    comm.all_reduce(tensor, ReduceOp::sum).wait();
    EXPECT_TRUE(tensor.equal(reduced(comm.size(), count, at::kFloat, ReduceOp::sum)));
    tensor.copy_(values(comm.rank(), count, at::kFloat));
    comm.broadcast(tensor, 0).wait();
    EXPECT_TRUE(tensor.equal(values(0, count, at::kFloat)));
  });
}

TEST_P(CollectiveSuite, ReduceScatter) {
  everywhere(
      [](Communicator& comm, std::int64_t count, Memory memory) {
        const auto input = mine(comm, memory, count * comm.size());
        auto output = empty(comm, memory, {count}, at::kFloat);
        comm.reduce_scatter(output, input, ReduceOp::sum).wait();
        const auto all = reduced(comm.size(), count * comm.size(), at::kFloat, ReduceOp::sum);
        EXPECT_TRUE(output.equal(all.narrow(0, comm.rank() * count, count)));
        EXPECT_TRUE(input.equal(values(comm.rank(), count * comm.size(), at::kFloat)));
        // The output may be its own place in the input.
        const auto place = input.narrow(0, comm.rank() * count, count);
        comm.reduce_scatter(place, input, ReduceOp::sum).wait();
        EXPECT_TRUE(place.equal(output));
      },
      262'145);
}

// In 16 bits too, whose sums engines make elsewhere, and as complex numbers, which they lack.
TEST_P(CollectiveSuite, ReduceScatterIntoItsOwnInput) {
  everywhere(
      [](Communicator& comm, std::int64_t count, Memory memory) {
        for (const auto dtype : {at::kBFloat16, at::kHalf, at::kLong, at::kComplexFloat}) {
          for (const auto op : {ReduceOp::sum, ReduceOp::mean}) {
            if (op == ReduceOp::mean && dtype == at::kLong) continue;
            const auto start = mine(comm, memory, count * comm.size()).remainder(7).to(dtype);
            auto apart = empty(comm, memory, {count}, dtype);
            comm.reduce_scatter(apart, start, op).wait();
            auto input = empty(comm, memory, {count * comm.size()}, dtype);
            input.copy_(start);
            const auto place = input.narrow(0, comm.rank() * count, count);
            comm.reduce_scatter(place, input, op).wait();
            EXPECT_TRUE(place.equal(apart)) << dtype << static_cast<int>(op);
          }
        }
      },
      4'097);
}

TEST_P(CollectiveSuite, AllGather) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    const auto input = mine(comm, memory, count);
    auto output = empty(comm, memory, {comm.size(), count}, at::kFloat);
    comm.all_gather(output, input).wait();
    for (int rank = 0; rank < comm.size(); ++rank) {
      EXPECT_TRUE(output[rank].equal(values(rank, count, at::kFloat)));
    }
    // The input may be its own place in the output.
    auto whole = empty(comm, memory, {comm.size(), count}, at::kFloat);
    whole[comm.rank()].copy_(input);
    comm.all_gather(whole, whole[comm.rank()]).wait();
    EXPECT_TRUE(whole.equal(output));
  });
}

TEST_P(CollectiveSuite, Broadcast) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    const int root = static_cast<int>(count % comm.size());
    auto tensor = mine(comm, memory, count);
    comm.broadcast(tensor, root).wait();
    EXPECT_TRUE(tensor.equal(values(root, count, at::kFloat)));
  });
}

TEST_P(CollectiveSuite, GatherAndScatter) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    const int root = static_cast<int>(count % comm.size());
    std::vector<at::Tensor> parts;
    if (comm.rank() == root) {
      parts = empty(comm, memory, {comm.size(), count}, at::kFloat).unbind();
    }
    comm.gather(parts, mine(comm, memory, count), root).wait();
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      EXPECT_TRUE(parts[rank].equal(values(static_cast<int>(rank), count, at::kFloat)));
      parts[rank] += 1;
    }
    auto part = empty(comm, memory, {count}, at::kFloat);
    comm.scatter(part, parts, root).wait();
    EXPECT_TRUE(part.equal(values(comm.rank(), count, at::kFloat) + 1));
  });
}

TEST_P(CollectiveSuite, AllToAll) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    auto input = empty(comm, memory, {comm.size(), count}, at::kFloat);
    for (int peer = 0; peer < comm.size(); ++peer) {
      input[peer].copy_(values(comm.rank() * comm.size() + peer, count, at::kFloat));
    }
    auto output = empty(comm, memory, {comm.size(), count}, at::kFloat);
    comm.all_to_all(output, input).wait();
    for (int peer = 0; peer < comm.size(); ++peer) {
      EXPECT_TRUE(output[peer].equal(values(peer * comm.size() + comm.rank(), count, at::kFloat)));
    }
  });
}

TEST_P(CollectiveSuite, SendAndReceiveRoundTheRing) {
  everywhere([](Communicator& comm, std::int64_t count, Memory memory) {
    if (comm.size() == 1) {
      EXPECT_THROW((void)comm.send(torch::ones({count}), 0), UsageError) << "there is nobody else";
      return;
    }
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    const auto first = mine(comm, memory, count), second = first + 100;
    auto received = empty(comm, memory, {count}, at::kFloat), later = torch::empty({count});
    Work sends[] = {comm.send(first, next, 1), comm.send(second, next, 2)};
    Work receives[] = {comm.receive(later, previous, 2), comm.receive(received, previous, 1)};
    for (auto& work : receives) work.wait();
    for (auto& work : sends) work.wait();
    EXPECT_TRUE(received.equal(values(previous, count, at::kFloat)));
    EXPECT_TRUE(later.equal(received + 100));
  });
}

// Sizes and operations in an order that no test was written for, all in flight at once.
TEST_P(CollectiveSuite, AMixOfOperationsInFlight) {
  on_ranks([](Communicator& comm) {
    std::uint64_t state = 12345;
    const auto random = [&state](std::uint64_t below) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33) % below;
    };
    for (int pass = 0; pass < 20; ++pass) {
      std::vector<Work> works;
      std::vector<std::pair<at::Tensor, at::Tensor>> results;
      for (int i = 0; i < 12; ++i) {
        const auto count = static_cast<std::int64_t>(1 + random(random(4) == 0 ? 300'000 : 5'000));
        const Memory memory = kMemories[random(3)];
        auto tensor = mine(comm, memory, count);
        if (random(2) == 0) {
          works.push_back(comm.all_reduce(tensor, ReduceOp::sum));
          results.emplace_back(tensor, reduced(comm.size(), count, at::kFloat, ReduceOp::sum));
        } else {
          const int root = static_cast<int>(random(static_cast<std::uint64_t>(comm.size())));
          works.push_back(comm.broadcast(tensor, root));
          results.emplace_back(tensor, values(root, count, at::kFloat));
        }
      }
      const std::size_t first = random(works.size());
      works[first].wait();
      EXPECT_TRUE(results[first].first.equal(results[first].second));
      for (auto& work : works) work.wait();
      for (const auto& [got, expected] : results) EXPECT_TRUE(got.equal(expected));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Engines, CollectiveSuite,
    ::testing::Values(Setting{Engine::gloo, 1}, Setting{Engine::gloo, 2}, Setting{Engine::gloo, 3},
                      Setting{Engine::shared_memory, 2}, Setting{Engine::shared_memory, 3},
                      Setting{Engine::shared_memory, 5}, Setting{Engine::hierarchy, 2},
                      Setting{Engine::hierarchy, 5}),
    name_of);

}  // namespace
}  // namespace accelerate
