#include "accelerate/comm/diagnosis.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;

TEST(GroupDiagnosis, TheHostOfTheStoreStaysUntilAllHaveFoundOut) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto host =
      std::async(std::launch::async, [&] { GroupDiagnosis(store, 0, 3, 60s).let_all_find_out(); });
  GroupDiagnosis(store, 2, 3, 60s).let_all_find_out();
  EXPECT_EQ(host.wait_for(100ms), std::future_status::timeout);
  GroupDiagnosis(store, 1, 3, 60s).let_all_find_out();
  host.get();
}

TEST(GroupDiagnosis, TheHostOfTheStoreDoesNotStayForARankThatIsGone) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  GroupDiagnosis(store, 0, 2, 50ms).let_all_find_out();
  EXPECT_FALSE(store->check({"accelerate/found out/1"}));
}

}  // namespace
}  // namespace accelerate::detail
