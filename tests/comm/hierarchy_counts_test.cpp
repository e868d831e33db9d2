// What the collectives of a hierarchy ask of the groups inside and between hosts, for groups of any
// size. docs/costs.md has the table;
// ACCELERATE_WRITE_PAGES=1 build/dev/tests/test_comm --gtest_filter='HierarchyCounts.*' writes it.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/hierarchical_communicator.h"
#include "tests/support/counted_rows.h"

namespace accelerate {
namespace {

// A group whose collectives end at once and move nothing, of which it counts the calls.
class CountingGroup final : public Communicator {
 public:
  CountingGroup(int rank, int size) : Communicator(rank, size) {}

  [[nodiscard]] int calls() const { return calls_; }

  std::string_view backend() const override { return "counting"; }
  std::chrono::milliseconds timeout() const override { return std::chrono::seconds(60); }
  Work all_reduce(at::Tensor, ReduceOp) override { return called(); }
  Work broadcast(at::Tensor, int) override { return called(); }
  Work all_gather(at::Tensor, at::Tensor) override { return called(); }
  Work reduce_scatter(at::Tensor, at::Tensor, ReduceOp) override { return called(); }
  Work reduce(at::Tensor, int, ReduceOp) override { return called(); }
  Work gather(std::vector<at::Tensor>, at::Tensor, int) override { return called(); }
  Work scatter(at::Tensor, std::vector<at::Tensor>, int) override { return called(); }
  Work all_to_all(at::Tensor, at::Tensor) override { return called(); }
  Work send(at::Tensor, int, int) override { return called(); }
  Work receive(at::Tensor, int, int) override { return called(); }
  void barrier() override { (void)called(); }
  std::shared_ptr<Communicator> split(const std::vector<int>&) override { return nullptr; }
  void abort(const std::string&) noexcept override {}

 private:
  Work called() {
    ++calls_;
    return {};
  }
  int calls_ = 0;
};

constexpr int kRanksOfHost = 8;

struct Calls {
  int inside = 0, between = 0, flat = 0;
  bool operator==(const Calls&) const = default;
};

using Collective = std::function<void(Communicator&)>;

// What `rank` calls for one collective of `hosts` hosts.
Calls calls_of(int rank, int hosts, const Collective& collective) {
  const int size = hosts * kRanksOfHost;
  Hierarchy parts;
  for (int each = 0; each < size; ++each) parts.host_of.push_back(each / kRanksOfHost);
  const auto flat = std::make_shared<CountingGroup>(rank, size);
  const auto inside = std::make_shared<CountingGroup>(rank % kRanksOfHost, kRanksOfHost);
  const auto between = rank % kRanksOfHost == 0
                           ? std::make_shared<CountingGroup>(rank / kRanksOfHost, hosts)
                           : nullptr;
  parts.flat = flat;
  parts.inside = inside;
  parts.between = between;
  collective(*make_hierarchical_communicator(parts));
  return {inside->calls(), between ? between->calls() : 0, flat->calls()};
}

struct Row {
  const char* name;
  Collective collective;
};

// A norm is a sum of one number, and ranks agree by the largest of a few.
std::vector<Row> rows() {
  return {
      {"all-reduce: gradients, 2 MiB",
       [](Communicator& group) { group.all_reduce(at::zeros({1 << 19}), ReduceOp::mean).wait(); }},
      {"all-reduce: norm, agreement",
       [](Communicator& group) { group.all_reduce(at::zeros({1}), ReduceOp::sum).wait(); }},
      {"broadcast from rank 0, 2 MiB",
       [](Communicator& group) { group.broadcast(at::zeros({1 << 19}), 0).wait(); }},
      {"all-gather of 8 bytes a rank",
       [](Communicator& group) {
         group.all_gather(at::zeros({2 * group.size()}), at::zeros({2})).wait();
       }},
      {"barrier", [](Communicator& group) { group.barrier(); }},
  };
}

TEST(HierarchyCounts, ARankCallsAsOftenInAGroupOfAnySize) {
  std::string table;
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Calls leader = calls_of(kRanksOfHost, 2, row.collective);
    const Calls other = calls_of(kRanksOfHost + 1, 2, row.collective);
    for (const int hosts : {16, 128, 1024}) {
      SCOPED_TRACE(hosts);
      EXPECT_EQ(calls_of(kRanksOfHost, hosts, row.collective), leader);
      EXPECT_EQ(calls_of(kRanksOfHost * hosts - 1, hosts, row.collective), other);
    }
    EXPECT_EQ(leader.flat + other.flat + other.between, 0);
    EXPECT_EQ(leader.inside, other.inside);
    table += std::string("| ") + row.name + " | " + std::to_string(other.inside) + " | " +
             std::to_string(leader.between) + " |\n";
  }
  testing::expect_counted_rows("HierarchyCounts", table);
}

// More bytes take more chunks, of which each takes as many calls.
TEST(HierarchyCounts, AreForEachChunk) {
  const auto reduce = [](std::int64_t chunks) {
    return [chunks](Communicator& group) {
      group.all_reduce(at::zeros({chunks << 19}), ReduceOp::sum).wait();
    };
  };
  const Calls one = calls_of(0, 16, reduce(1)), four = calls_of(0, 16, reduce(4));
  EXPECT_EQ(four.inside, 4 * one.inside);
  EXPECT_EQ(four.between, 4 * one.between);
}

}  // namespace
}  // namespace accelerate
