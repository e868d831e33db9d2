// What a group over hosts says that it is, how it splits, and what it refuses.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/comm/hierarchical_communicator.h"
#include "accelerate/comm/host_layout.h"
#include "tests/support/errors.h"
#include "tests/support/hosts.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using Layout = std::vector<int>;
using testing::run_hosts;

TEST(Hierarchy, SaysWhatItIs) {
  run_hosts({0, 0, 1}, [](const auto& comm) {
    EXPECT_EQ(comm->backend(), comm->rank() == 2 ? "single+gloo" : "gloo+gloo");
    EXPECT_EQ(comm->timeout(), std::chrono::seconds(20));
    EXPECT_EQ(comm->size(), 3);
  });
}

TEST(Hierarchy, OfOneHostIsTheGroupInside) {
  run_hosts({0, 0}, [](const auto& comm) {
    EXPECT_EQ(comm->backend(), "gloo");
    comm->barrier();
  });
}

TEST(Hierarchy, MistakesReadAsOverAFlatGroup) {
  run_hosts({0, 0, 1}, [](const auto& comm) {
    const auto expect = [](const char* part, const std::function<void()>& call) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, testing::message_of<UsageError>(call));
    };
    const at::Tensor two = torch::ones({2});
    expect("rank 3 was named in a group of 3 ranks", [&] { (void)comm->broadcast(two, 3); });
    expect("named more than once", [&] { (void)comm->split({0, 0}); });
    expect("must be 3 parts of the same dtype",
           [&] { (void)comm->all_gather(torch::empty({5}), two); });
    expect("must be 3 parts of the same dtype",
           [&] { (void)comm->reduce_scatter(two, torch::empty({6}, at::kInt), ReduceOp::sum); });
    expect("not contiguous",
           [&] { (void)comm->all_reduce(torch::ones({2, 3}).t(), ReduceOp::sum); });
    expect("complex numbers have no such reduction",
           [&] { (void)comm->all_reduce(torch::ones({2}, at::kComplexFloat), ReduceOp::max); });
    expect("works on the bits", [&] { (void)comm->all_reduce(torch::ones({2}), ReduceOp::bor); });
    expect("a mean has fractions",
           [&] { (void)comm->all_reduce(torch::ones({2}, at::kInt), ReduceOp::mean); });
    comm->barrier();
  });
}

TEST(Hierarchy, PartsThatDoNotFitAreRefused) {
  testing::run_ranks_shared(2, [](const auto& flat) {
    const auto alone = single_communicator();
    const auto refused = [&](Layout host_of, std::shared_ptr<Communicator> between) {
      EXPECT_THROW((void)make_hierarchical_communicator({host_of, flat, alone, between}),
                   UsageError)
          << testing::layout_name(host_of);
    };
    refused({1, 0}, flat);
    refused({0, 2}, flat);
    refused({0, 1, 1}, flat);
    refused({0, 1}, nullptr);
    refused({0, 1}, alone);
    refused({-1, 0}, flat);
    EXPECT_THROW((void)make_hierarchical_communicator({{0, 1}, flat, nullptr, flat}), UsageError);
    EXPECT_THROW((void)make_hierarchical_communicator({{0, 1}, flat, alone, flat, 0}), UsageError);
    EXPECT_THROW((void)make_hierarchical_communicator({{0, 1}, nullptr, alone, flat}), UsageError);
    flat->barrier();
  });
}

struct Split {
  Layout ranks;
  std::string backend;  // on the first of them
};

TEST(Hierarchy, SplitsAlongHostsAcrossThemAndBoth) {
  run_hosts({0, 0, 1, 1, 1}, [](const auto& comm) {
    for (const Split& split :
         {Split{{3, 4}, "gloo"}, Split{{1, 0}, "gloo"}, Split{{2}, "single"}, Split{{0, 2}, "gloo"},
          Split{{4, 0, 2}, "gloo+gloo"}, Split{{0, 1, 2, 3, 4}, "gloo+gloo"}, Split{{}, ""}}) {
      const auto part = comm->split(split.ranks);
      const auto mine = std::find(split.ranks.begin(), split.ranks.end(), comm->rank());
      ASSERT_EQ(part != nullptr, mine != split.ranks.end());
      if (!part) continue;
      EXPECT_EQ(part->rank(), mine - split.ranks.begin());
      if (part->rank() == 0) {
        EXPECT_EQ(part->backend(), split.backend);
      }
      at::Tensor all = torch::empty({part->size()}, at::kInt);
      part->all_gather(all, torch::full({1}, comm->rank(), at::kInt)).wait();
      for (int i = 0; i < part->size(); ++i) {
        EXPECT_EQ(all[i].template item<int>(), split.ranks[static_cast<std::size_t>(i)]);
      }
      const auto again = part->split({0});
      EXPECT_EQ(again != nullptr, part->rank() == 0);
    }
    comm->barrier();
  });
}

TEST(Hierarchy, PartsWorkBesideTheWhole) {
  run_hosts({0, 0, 1, 1}, [](const auto& comm) {
    const auto part = comm->split({0, 1, 2, 3});
    at::Tensor a = torch::full({3000}, 1.0), b = torch::full({3000}, 2.0);
    auto first = comm->all_reduce(a, ReduceOp::sum);
    auto second = part->all_reduce(b, ReduceOp::sum);
    (comm->rank() % 2 == 0 ? second : first).wait();
    (comm->rank() % 2 == 0 ? first : second).wait();
    EXPECT_EQ(a[2999].template item<double>() + b[0].template item<double>(), 12.0);
  });
}

TEST(HostLayout, KnowsLeadersAndPlaces) {
  const detail::HostLayout layout({0, 1, 0, 2, 1, 1}, 4);
  EXPECT_EQ(layout.hosts(), 3);
  EXPECT_EQ(layout.members(1), (Layout{1, 4, 5}));
  EXPECT_EQ(layout.place_of(4), 1);
  EXPECT_EQ(layout.most(), 3);
  EXPECT_FALSE(layout.leads());
  EXPECT_EQ(layout.inside_text(), "inside host 1 (its ranks count from 0 and are 1, 4, 5 of all)");
  EXPECT_EQ(layout.between_text(),
            "between the hosts (their leaders count from 0 and are ranks 0, 1, 3 of all)");
}

}  // namespace
}  // namespace accelerate
